"""The native half of the thread pool, as LLVM IR.

An atomic counter distributes a job in ranges of blocks. The `state` word holds whether the job is open, whether the
owner sleeps until the last worker leaves, the number of workers that may join, and the number of workers that have
joined. Workers join only an open job; the owner closes the job and waits until all workers have left before it changes
the job's fields. Sleeping is by futex: workers on `wake`, which counts the jobs opened, the owner on `state`."""

from __future__ import annotations

from tegula.backend import watch

JOB_BYTES = 384
DONE, AGAIN, BUSY, STOPPED = 0, 1, 2, 3

OPEN, WAITING, LIMIT_SHIFT, COUNT = 1 << 30, 1 << 29, 12, 0xFFF
MAX_HELPERS = COUNT
# In microseconds: the target duration of a range of blocks; the minimum duration of a launch for which workers are
# woken; the maximum and minimum time that a worker spins for the next job before it sleeps; the time that the owner
# spins until the last worker leaves; the time between two checks of a launch for signals.
RANGE, MIN_SHARED, MAX_SPIN, MIN_SPIN, OWNER_SPIN, SLICE = 100, 4, 20, 1, 10, 50_000

# Fields that different threads write are on different cache lines.
_FIELDS = {
    "state": 0, "next": 64, "wake": 128, "sleepers": 192, "owner": 256,
    "kernel": 320, "args": 328, "blocks": 336, "helpers": 344, "scratch": 352, "opened": 360,
    "stopped": 368,
}  # fmt: skip

_X86 = {
    "clock": 'asm sideeffect "rdtsc\\0Ashlq $$32, %rdx\\0Aorq %rdx, %rax", "={rax},~{rdx},~{flags}"()',
    "rate": "add i64 0, 2500",
    "pause": 'call void asm sideeffect "pause", "~{memory}"()',
    "syscall": 'asm sideeffect "syscall", "={rax},{rax},{rdi},{rsi},{rdx},{r10},{r8},{r9},~{rcx},~{r11},~{memory}"',
    "futex": 202, "mmap": 9, "munmap": 11,
}  # fmt: skip
_ARM = {
    "clock": 'asm sideeffect "isb\\0Amrs $0, cntvct_el0", "=r"()',
    "rate": 'call i64 asm "mrs $0, cntfrq_el0", "=r"()',
    "pause": 'call void asm sideeffect "isb", "~{memory}"()',
    "syscall": 'asm sideeffect "svc #0", "={x0},{x8},{x0},{x1},{x2},{x3},{x4},{x5},~{memory}"',
    "futex": 98, "mmap": 222, "munmap": 215,
}  # fmt: skip

_TEXT = """
@costs = internal global [1024 x i64] zeroinitializer, align 64

; The time in ticks of the processor's counter; the number of ticks of a time span (estimated on x86-64).
define internal i64 @clock() alwaysinline {
  %t = call i64 <clock>
  ret i64 %t
}
define internal i64 @ticks(i64 %microseconds) alwaysinline {
  %rate = <rate>
  %scaled.ticks = mul i64 %rate, %microseconds
  %t = <scaled>
  ret i64 %t
}
define internal i64 @system_call(i64 %n, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f) alwaysinline {
  %r = call i64 <syscall>(i64 %n, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f)
  ret i64 %r
}
define internal void @sleep(ptr %word, i32 %seen, ptr %timeout) noinline {
  %at = ptrtoint ptr %word to i64
  %expected = zext i32 %seen to i64
  %limit = ptrtoint ptr %timeout to i64
  %r = call i64 @system_call(i64 <futex>, i64 %at, i64 128, i64 %expected, i64 %limit, i64 0, i64 0)
  ret void
}
define internal void @wake(ptr %word, i64 %count) noinline {
  %at = ptrtoint ptr %word to i64
  %r = call i64 @system_call(i64 <futex>, i64 %at, i64 129, i64 %count, i64 0, i64 0, i64 0)
  ret void
}

; The address of the last measured time of a block of a kernel, in ticks; 0 if unknown. Kernels may share an entry.
define internal ptr @cost_of(ptr %kernel) alwaysinline {
  %address = ptrtoint ptr %kernel to i64
  %hash = mul i64 %address, 11400714819323198485
  %k = lshr i64 %hash, 54
  %at = getelementptr inbounds [1024 x i64], ptr @costs, i64 0, i64 %k
  ret ptr %at
}

; Run ranges of blocks until no block remains (true) or the time has elapsed (false). Ranges grow to the target
; duration, and shrink towards the end, so that all threads end together. The word before a kernel's code is the
; number of blocks, a power of two, that run in the lanes of one vector: ranges are multiples of this number.
define internal i1 @run_ranges(ptr %job, ptr %scratch, i64 %time) noinline {
entry:
  %next.p = getelementptr inbounds i8, ptr %job, i64 <next>
  %kernel.p = getelementptr inbounds i8, ptr %job, i64 <kernel>
  %kernel = load ptr, ptr %kernel.p
  %args.p = getelementptr inbounds i8, ptr %job, i64 <args>
  %args = load ptr, ptr %args.p
  %blocks.p = getelementptr inbounds i8, ptr %job, i64 <blocks>
  %blocks = load i64, ptr %blocks.p
  %helpers.p = getelementptr inbounds i8, ptr %job, i64 <helpers>
  %helpers = load i64, ptr %helpers.p
  %twice = shl i64 %helpers, 1
  %parts = add i64 %twice, 2
  %target.ticks = call i64 @ticks(i64 <RANGE>)
  %cost.p = call ptr @cost_of(ptr %kernel)
  %cost.0 = load atomic i64, ptr %cost.p monotonic, align 8
  %known = icmp ne i64 %cost.0, 0
  %cost = select i1 %known, i64 %cost.0, i64 %target.ticks
  %first.ticks = lshr i64 %target.ticks, 2
  %fitting.blocks = udiv i64 %first.ticks, %cost
  %size.0 = call i64 @llvm.umax.i64(i64 %fitting.blocks, i64 1)
  %lanes.p = getelementptr i8, ptr %kernel, i64 -8
  %lanes = load i64, ptr %lanes.p, align 8
  %begin = call i64 @clock()
  %job.p = getelementptr i8, ptr %scratch, i64 <WATCH_JOB>
  store ptr %job, ptr %job.p
  %poll.p = getelementptr i8, ptr %scratch, i64 <WATCH_LOOK>
  store ptr @poll, ptr %poll.p
  %self.p = getelementptr i8, ptr %scratch, i64 <WATCH_SELF>
  store ptr %scratch, ptr %self.p
  br label %loop
loop:
  %size = phi i64 [ %size.0, %entry ], [ %size.next, %next.range ]
  %blocks.run = phi i64 [ 0, %entry ], [ %blocks.run.next, %next.range ]
  %before = phi i64 [ %begin, %entry ], [ %after, %next.range ]
  %claimed = load atomic i64, ptr %next.p monotonic, align 8
  %remaining = sub i64 %blocks, %claimed
  %has.blocks = icmp sgt i64 %remaining, 0
  br i1 %has.blocks, label %claim, label %finish
claim:
  %fair.share = udiv i64 %remaining, %parts
  %max.size = call i64 @llvm.umax.i64(i64 %fair.share, i64 1)
  %n.0 = call i64 @llvm.umin.i64(i64 %size, i64 %max.size)
  %n.1 = sub i64 0, %lanes
  %n.2 = and i64 %n.0, %n.1
  %n = call i64 @llvm.umax.i64(i64 %n.2, i64 %lanes)
  %first = atomicrmw add ptr %next.p, i64 %n monotonic
  %is.claimed = icmp slt i64 %first, %blocks
  br i1 %is.claimed, label %run, label %finish
run:
  %last = add i64 %first, %n
  %end = call i64 @llvm.smin.i64(i64 %last, i64 %blocks)
  %stopped = call i32 %kernel(ptr %args, ptr %scratch, i64 %first, i64 %end)
  %is.complete = icmp eq i32 %stopped, 0
  br i1 %is.complete, label %complete, label %cancel
complete:
  %count = sub i64 %end, %first
  %blocks.run.next = add i64 %blocks.run, %count
  %after = call i64 @clock()
  %duration = sub i64 %after, %before
  %double.duration = shl i64 %duration, 1
  %is.short = icmp ult i64 %double.duration, %target.ticks
  %is.full = icmp uge i64 %n, %size
  %grow = and i1 %is.short, %is.full
  %double = shl i64 %size, 1
  %half.0 = lshr i64 %size, 1
  %half = call i64 @llvm.umax.i64(i64 %half.0, i64 1)
  %double.target = shl i64 %target.ticks, 1
  %is.long = icmp ugt i64 %duration, %double.target
  %size.kept = select i1 %is.long, i64 %half, i64 %size
  %size.next = select i1 %grow, i64 %double, i64 %size.kept
  %elapsed = sub i64 %after, %begin
  %is.late = icmp ugt i64 %elapsed, %time
  br i1 %is.late, label %finish, label %next.range
next.range:
  br label %loop
finish:
  %is.finished = phi i1 [ true, %loop ], [ true, %claim ], [ false, %complete ]
  %total.blocks = phi i64 [ %blocks.run, %loop ], [ %blocks.run, %claim ], [ %blocks.run.next, %complete ]
  %end.time = phi i64 [ %before, %loop ], [ %before, %claim ], [ %after, %complete ]
  %ran.any = icmp ne i64 %total.blocks, 0
  br i1 %ran.any, label %cache, label %finish.call
cache:
  %spent = sub i64 %end.time, %begin
  %block.ticks.0 = udiv i64 %spent, %total.blocks
  %block.ticks = call i64 @llvm.umax.i64(i64 %block.ticks.0, i64 1)
  store atomic i64 %block.ticks, ptr %cost.p monotonic, align 8
  br label %finish.call
finish.call:
  store ptr null, ptr %job.p
  ret i1 %is.finished
cancel:
  store ptr null, ptr %job.p
  call void @cancel(ptr %job)
  ret i1 true
}

; Cancel a job: no further block starts, and running blocks end at their next poll.
define internal void @cancel(ptr %job) noinline {
  %stopped.p = getelementptr inbounds i8, ptr %job, i64 <stopped>
  store atomic i64 1, ptr %stopped.p seq_cst, align 8
  %blocks.p = getelementptr inbounds i8, ptr %job, i64 <blocks>
  %blocks = load i64, ptr %blocks.p
  %next.p = getelementptr inbounds i8, ptr %job, i64 <next>
  store atomic i64 %blocks, ptr %next.p seq_cst, align 8
  ret void
}

; Open a job and wake two workers; each worker that joins wakes two more, so that the owner starts its own work at once.
define internal void @open(ptr %job) noinline {
  %opened.p = getelementptr inbounds i8, ptr %job, i64 <opened>
  store i64 1, ptr %opened.p
  %helpers.p = getelementptr inbounds i8, ptr %job, i64 <helpers>
  %helpers = load i64, ptr %helpers.p
  %limit.0 = trunc i64 %helpers to i32
  %limit = shl i32 %limit.0, <LIMIT_SHIFT>
  %state = or i32 %limit, <OPEN>
  store atomic i32 %state, ptr %job seq_cst, align 4
  %wake.p = getelementptr inbounds i8, ptr %job, i64 <wake>
  %old = atomicrmw add ptr %wake.p, i32 1 seq_cst
  %wake.count = call i64 @llvm.umin.i64(i64 %helpers, i64 2)
  call void @wake_sleepers(ptr %job, i64 %wake.count)
  ret void
}
define internal void @wake_sleepers(ptr %job, i64 %count) {
  %sleepers.p = getelementptr inbounds i8, ptr %job, i64 <sleepers>
  %sleepers = load atomic i32, ptr %sleepers.p seq_cst, align 4
  %has.sleepers = icmp ne i32 %sleepers, 0
  br i1 %has.sleepers, label %wake.some, label %none
wake.some:
  %wake.p = getelementptr inbounds i8, ptr %job, i64 <wake>
  call void @wake(ptr %wake.p, i64 %count)
  ret void
none:
  ret void
}

; Close a job to further workers and wait until the last worker has left (true). If %patient is false, return false
; after SLICE microseconds.
define internal i1 @close(ptr %job, i1 %patient) noinline {
entry:
  %timeout = alloca { i64, i64 }
  store i64 0, ptr %timeout
  %nanoseconds = getelementptr inbounds i8, ptr %timeout, i64 8
  store i64 <SLICE_NS>, ptr %nanoseconds
  %state.before = atomicrmw and ptr %job, i32 <NOT_OPEN> seq_cst
  %spin = call i64 @ticks(i64 <OWNER_SPIN>)
  %begin = call i64 @clock()
  br label %spin.check
spin.check:
  %state = load atomic i32, ptr %job acquire, align 4
  %count = and i32 %state, <COUNT>
  %is.empty = icmp eq i32 %count, 0
  br i1 %is.empty, label %is.closed, label %spin.wait
spin.wait:
  <pause>
  %now = call i64 @clock()
  %waited = sub i64 %now, %begin
  %may.spin = icmp ult i64 %waited, %spin
  br i1 %may.spin, label %spin.check, label %announce
announce:
  %before = atomicrmw or ptr %job, i32 <WAITING> seq_cst
  %expected.state = or i32 %before, <WAITING>
  %workers = and i32 %before, <COUNT>
  %all.left = icmp eq i32 %workers, 0
  br i1 %all.left, label %is.closed, label %sleep.owner
sleep.owner:
  call void @sleep(ptr %job, i32 %expected.state, ptr %timeout)
  %state.2 = load atomic i32, ptr %job acquire, align 4
  %workers.2 = and i32 %state.2, <COUNT>
  %all.left.2 = icmp eq i32 %workers.2, 0
  br i1 %all.left.2, label %is.closed, label %check.time
check.time:
  %end = call i64 @clock()
  %slept = sub i64 %end, %begin
  %slice = call i64 @ticks(i64 <SLICE>)
  %is.late = icmp ugt i64 %slept, %slice
  %impatient = xor i1 %patient, true
  %stop = and i1 %is.late, %impatient
  br i1 %stop, label %finish, label %announce
is.closed:
  br label %finish
finish:
  %result = phi i1 [ true, %is.closed ], [ false, %check.time ]
  ret i1 %result
}
; Release the job of a launch that has ended: DONE or STOPPED.
define internal i32 @release(ptr %job) alwaysinline {
  %stopped.p = getelementptr inbounds i8, ptr %job, i64 <stopped>
  %stopped = load atomic i64, ptr %stopped.p monotonic, align 8
  %is.complete = icmp eq i64 %stopped, 0
  %status = select i1 %is.complete, i32 <DONE>, i32 <STOPPED>
  %owner.p = getelementptr inbounds i8, ptr %job, i64 <owner>
  store atomic i64 0, ptr %owner.p release, align 8
  ret i32 %status
}

; Begin a launch. Returns DONE, STOPPED (a signal handler has raised an exception, which is stored in `@python`), AGAIN
; (call `resume` after checking for signals) or BUSY (another launch owns the job).
define i32 @start(ptr %job, i64 %token, ptr %kernel, ptr %args, i64 %blocks, i64 %helpers, i64 %bytes, ptr %scratch) {
entry:
  %owner.p = getelementptr inbounds i8, ptr %job, i64 <owner>
  %pair = cmpxchg ptr %owner.p, i64 0, i64 %token seq_cst monotonic
  %is.owner = extractvalue { i64, i1 } %pair, 1
  br i1 %is.owner, label %fill, label %busy
busy:
  ret i32 <BUSY>
fill:
  %kernel.p = getelementptr inbounds i8, ptr %job, i64 <kernel>
  store ptr %kernel, ptr %kernel.p
  %args.p = getelementptr inbounds i8, ptr %job, i64 <args>
  store ptr %args, ptr %args.p
  %blocks.p = getelementptr inbounds i8, ptr %job, i64 <blocks>
  store i64 %blocks, ptr %blocks.p
  %helpers.p = getelementptr inbounds i8, ptr %job, i64 <helpers>
  store i64 %helpers, ptr %helpers.p
  %scratch.p = getelementptr inbounds i8, ptr %job, i64 <scratch>
  store i64 %bytes, ptr %scratch.p
  %opened.p = getelementptr inbounds i8, ptr %job, i64 <opened>
  store i64 0, ptr %opened.p
  %stopped.p = getelementptr inbounds i8, ptr %job, i64 <stopped>
  store atomic i64 0, ptr %stopped.p monotonic, align 8
  %next.p = getelementptr inbounds i8, ptr %job, i64 <next>
  store atomic i64 0, ptr %next.p monotonic, align 8
  %no.helpers = icmp eq i64 %helpers, 0
  br i1 %no.helpers, label %run, label %estimate
estimate:
  %cost.p = call ptr @cost_of(ptr %kernel)
  %cost = load atomic i64, ptr %cost.p monotonic, align 8
  %known = icmp ne i64 %cost, 0
  %product = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %cost, i64 %blocks)
  %total = extractvalue { i64, i1 } %product, 0
  %overflows = extractvalue { i64, i1 } %product, 1
  %small.ticks = call i64 @ticks(i64 <MIN_SHARED>)
  %is.small = icmp ult i64 %total, %small.ticks
  %fits = xor i1 %overflows, true
  %cheap.0 = and i1 %known, %is.small
  %cheap = and i1 %cheap.0, %fits
  br i1 %cheap, label %run.alone, label %share
run.alone:
  %finished = call i1 @run_ranges(ptr %job, ptr %scratch, i64 %small.ticks)
  br i1 %finished, label %done, label %share
done:
  %status = call i32 @release(ptr %job)
  ret i32 %status
share:
  call void @open(ptr %job)
  br label %run
run:
  %r = call i32 @resume(ptr %job, ptr %scratch)
  ret i32 %r
}
define i32 @resume(ptr %job, ptr %scratch) {
entry:
  %slice = call i64 @ticks(i64 <SLICE>)
  %finished = call i1 @run_ranges(ptr %job, ptr %scratch, i64 %slice)
  br i1 %finished, label %check.workers, label %unfinished
check.workers:
  %opened.p = getelementptr inbounds i8, ptr %job, i64 <opened>
  %opened = load i64, ptr %opened.p
  %shared = icmp ne i64 %opened, 0
  br i1 %shared, label %close.job, label %done
close.job:
  %empty = call i1 @close(ptr %job, i1 false)
  br i1 %empty, label %done, label %unfinished
done:
  %status = call i32 @release(ptr %job)
  ret i32 %status
unfinished:
  ret i32 <AGAIN>
}

; Cancel a launch if it still owns the job, and wait until its running blocks have ended.
define void @stop(ptr %job, i64 %token) {
entry:
  %owner.p = getelementptr inbounds i8, ptr %job, i64 <owner>
  %owner = load atomic i64, ptr %owner.p acquire, align 8
  %is.owner = icmp eq i64 %owner, %token
  br i1 %is.owner, label %cancel.job, label %finish
cancel.job:
  call void @cancel(ptr %job)
  %empty = call i1 @close(ptr %job, i1 true)
  %status = call i32 @release(ptr %job)
  br label %finish
finish:
  ret void
}

; A worker's new scratch memory of at least %bytes bytes after its watch; null if memory is exhausted.
define internal ptr @grow(ptr %old, i64 %old.bytes, i64 %bytes) noinline {
entry:
  %has.old = icmp ne ptr %old, null
  br i1 %has.old, label %free, label %map
free:
  %at = ptrtoint ptr %old to i64
  %old.base = sub i64 %at, <WATCH_BYTES>
  %old.size = add i64 %old.bytes, <WATCH_BYTES>
  %freed = call i64 @system_call(i64 <munmap>, i64 %old.base, i64 %old.size, i64 0, i64 0, i64 0, i64 0)
  br label %map
map:
  %size = add i64 %bytes, <WATCH_BYTES>
  %new = call i64 @system_call(i64 <mmap>, i64 0, i64 %size, i64 3, i64 34, i64 -1, i64 0)
  %failed = icmp ugt i64 %new, -4096
  %after = add i64 %new, <WATCH_BYTES>
  %address = select i1 %failed, i64 0, i64 %after
  %pointer = inttoptr i64 %address to ptr
  ret ptr %pointer
}

; The main loop of a worker.
define void @serve(ptr %job) {
entry:
  %wake.p = getelementptr inbounds i8, ptr %job, i64 <wake>
  %sleepers.p = getelementptr inbounds i8, ptr %job, i64 <sleepers>
  %next.p = getelementptr inbounds i8, ptr %job, i64 <next>
  %blocks.p = getelementptr inbounds i8, ptr %job, i64 <blocks>
  %bytes.p = getelementptr inbounds i8, ptr %job, i64 <scratch>
  %seen.p = alloca i32
  %spin.p = alloca i64
  %scratch.p = alloca ptr
  %size.p = alloca i64
  %max.spin = call i64 @ticks(i64 <MAX_SPIN>)
  %min.spin = call i64 @ticks(i64 <MIN_SPIN>)
  %wake.0 = load atomic i32, ptr %wake.p acquire, align 4
  %seen.0 = sub i32 %wake.0, 1
  store i32 %seen.0, ptr %seen.p
  store i64 %max.spin, ptr %spin.p
  store ptr null, ptr %scratch.p
  store i64 0, ptr %size.p
  br label %check.wake
check.wake:
  %wake = load atomic i32, ptr %wake.p acquire, align 4
  %seen = load i32, ptr %seen.p
  %no.job = icmp eq i32 %wake, %seen
  br i1 %no.job, label %idle, label %new.job
new.job:
  store i32 %wake, ptr %seen.p
  br label %try.join
try.join:
  %state = load atomic i32, ptr %job acquire, align 4
  %open.bit = and i32 %state, <OPEN>
  %is.open = icmp ne i32 %open.bit, 0
  %joined = and i32 %state, <COUNT>
  %limit.0 = lshr i32 %state, <LIMIT_SHIFT>
  %limit = and i32 %limit.0, <COUNT>
  %has.room = icmp ult i32 %joined, %limit
  %can.join = and i1 %is.open, %has.room
  br i1 %can.join, label %join, label %check.wake
join:
  %state.joined = add i32 %state, 1
  %pair = cmpxchg ptr %job, i32 %state, i32 %state.joined acq_rel monotonic
  %entered = extractvalue { i32, i1 } %pair, 1
  br i1 %entered, label %run.job, label %try.join
run.job:
  store i64 %max.spin, ptr %spin.p
  %claimed = load atomic i64, ptr %next.p monotonic, align 8
  %blocks = load i64, ptr %blocks.p
  %has.blocks = icmp slt i64 %claimed, %blocks
  br i1 %has.blocks, label %wake.others, label %leave
wake.others:
  %several.workers = icmp ugt i32 %limit, 1
  br i1 %several.workers, label %wake.two, label %check.scratch
wake.two:
  call void @wake_sleepers(ptr %job, i64 2)
  br label %check.scratch
check.scratch:
  %bytes = load i64, ptr %bytes.p
  %size = load i64, ptr %size.p
  %old.scratch = load ptr, ptr %scratch.p
  %no.scratch = icmp eq ptr %old.scratch, null
  %is.smaller = icmp ult i64 %size, %bytes
  %must.grow = or i1 %no.scratch, %is.smaller
  br i1 %must.grow, label %grow.scratch, label %run.blocks
grow.scratch:
  %scratch.old = load ptr, ptr %scratch.p
  %scratch.new = call ptr @grow(ptr %scratch.old, i64 %size, i64 %bytes)
  store ptr %scratch.new, ptr %scratch.p
  %no.memory = icmp eq ptr %scratch.new, null
  %new.size = select i1 %no.memory, i64 0, i64 %bytes
  store i64 %new.size, ptr %size.p
  br i1 %no.memory, label %leave, label %run.blocks
run.blocks:
  %scratch = load ptr, ptr %scratch.p
  %finished = call i1 @run_ranges(ptr %job, ptr %scratch, i64 9223372036854775807)
  br label %leave
leave:
  %state.before = atomicrmw sub ptr %job, i32 1 seq_cst
  %open.after = and i32 %state.before, <OPEN>
  %closed = icmp eq i32 %open.after, 0
  %waiting.bit = and i32 %state.before, <WAITING>
  %waiting = icmp ne i32 %waiting.bit, 0
  %workers.before = and i32 %state.before, <COUNT>
  %is.last = icmp eq i32 %workers.before, 1
  %owner.waits = and i1 %closed, %waiting
  %wakes.owner = and i1 %owner.waits, %is.last
  br i1 %wakes.owner, label %wake.owner, label %check.wake
wake.owner:
  call void @wake(ptr %job, i64 1)
  br label %check.wake
idle:
  %spin = load i64, ptr %spin.p
  %begin = call i64 @clock()
  br label %spin.wait
spin.wait:
  <pause>
  %wake.1 = load atomic i32, ptr %wake.p acquire, align 4
  %changed = icmp ne i32 %wake.1, %seen
  br i1 %changed, label %check.wake, label %check.spin
check.spin:
  %now = call i64 @clock()
  %waited = sub i64 %now, %begin
  %may.spin = icmp ult i64 %waited, %spin
  br i1 %may.spin, label %spin.wait, label %sleep
sleep:
  %half = lshr i64 %spin, 1
  %spin.next = call i64 @llvm.umax.i64(i64 %half, i64 %min.spin)
  store i64 %spin.next, ptr %spin.p
  %sleepers.before = atomicrmw add ptr %sleepers.p, i32 1 seq_cst
  call void @sleep(ptr %wake.p, i32 %seen, ptr null)
  %sleepers.after = atomicrmw sub ptr %sleepers.p, i32 1 seq_cst
  br label %check.wake
}
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)
"""


def thunk_text(x86: bool) -> str:
    """LLVM IR of `start`, `resume`, `stop`, `serve` and the watch's `poll` on Linux, for x86-64 if `x86` is set, else
    for AArch64."""
    names = dict(_FIELDS) | (_X86 if x86 else _ARM) | {
        "scaled": "add i64 0, %scaled.ticks" if x86 else "udiv i64 %scaled.ticks, 1000000",
        "NOT_OPEN": ~OPEN, "SLICE_NS": SLICE * 1000,
        **{name: globals()[name] for name in ("OPEN", "WAITING", "LIMIT_SHIFT", "COUNT")},
        **{name: globals()[name] for name in ("DONE", "AGAIN", "BUSY", "STOPPED")},
        **{name: globals()[name] for name in ("RANGE", "MIN_SHARED", "MAX_SPIN", "MIN_SPIN", "OWNER_SPIN", "SLICE")},
    }  # fmt: skip
    names |= watch.NAMES | {"gettid": 186 if x86 else 178, "getpid": 39 if x86 else 172}
    text = _TEXT + watch.TEXT
    for name, value in names.items():
        text = text.replace(f"<{name}>", str(value))
    return text
