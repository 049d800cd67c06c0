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
# Times in microseconds: the target duration of a range of blocks; the duration of work that is not worth waking a
# worker; the maximum and minimum time that a worker spins for the next job before it sleeps; the time that the owner
# spins until the last worker leaves; the time between two checks of a launch for signals.
RANGE, ALONE, SPIN_MOST, SPIN_LEAST, SPIN_OWNER, SLICE = 100, 4, 20, 1, 10, 50_000

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

; Time in ticks of the processor's counter, and how many make a microsecond (about, where that is not known).
define internal i64 @clock() alwaysinline {
  %t = call i64 <clock>
  ret i64 %t
}
define internal i64 @ticks(i64 %microseconds) alwaysinline {
  %rate = <rate>
  %all = mul i64 %rate, %microseconds
  %t = <scaled>
  ret i64 %t
}
define internal i64 @system(i64 %n, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f) alwaysinline {
  %r = call i64 <syscall>(i64 %n, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f)
  ret i64 %r
}
define internal void @sleep(ptr %word, i32 %seen, ptr %timeout) noinline {
  %at = ptrtoint ptr %word to i64
  %expected = zext i32 %seen to i64
  %limit = ptrtoint ptr %timeout to i64
  %r = call i64 @system(i64 <futex>, i64 %at, i64 128, i64 %expected, i64 %limit, i64 0, i64 0)
  ret void
}
define internal void @rouse(ptr %word, i64 %count) noinline {
  %at = ptrtoint ptr %word to i64
  %r = call i64 @system(i64 <futex>, i64 %at, i64 129, i64 %count, i64 0, i64 0, i64 0)
  ret void
}

; What a block of a kernel cost last time, in ticks; 0 if not known. Kernels that share an entry are only slower.
define internal ptr @cost_of(ptr %kernel) alwaysinline {
  %address = ptrtoint ptr %kernel to i64
  %mixed = mul i64 %address, 11400714819323198485
  %k = lshr i64 %mixed, 54
  %at = getelementptr inbounds [1024 x i64], ptr @costs, i64 0, i64 %k
  ret ptr %at
}

; Run ranges of blocks until none is left (true) or the time is over (false). Ranges grow until one takes long enough,
; and shrink towards the end, so that all threads end together. The word before a kernel's code is the number of blocks,
; a power of two, that it runs side by side: ranges are multiples, unless there are fewer than a fourth for each thread.
define internal i1 @take(ptr %job, ptr %scratch, i64 %time) noinline {
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
  %goal = call i64 @ticks(i64 <RANGE>)
  %cost.p = call ptr @cost_of(ptr %kernel)
  %cost.0 = load atomic i64, ptr %cost.p monotonic, align 8
  %known = icmp ne i64 %cost.0, 0
  %cost = select i1 %known, i64 %cost.0, i64 %goal
  %careful = lshr i64 %goal, 2
  %fit = udiv i64 %careful, %cost
  %size.0 = call i64 @llvm.umax.i64(i64 %fit, i64 1)
  %lanes.p = getelementptr i8, ptr %kernel, i64 -8
  %lanes = load i64, ptr %lanes.p, align 8
  %few = lshr i64 %lanes, 2
  %begin = call i64 @clock()
  %job.p = getelementptr i8, ptr %scratch, i64 <WATCH_JOB>
  store ptr %job, ptr %job.p
  %look.p = getelementptr i8, ptr %scratch, i64 <WATCH_LOOK>
  store ptr @look, ptr %look.p
  %self.p = getelementptr i8, ptr %scratch, i64 <WATCH_SELF>
  store ptr %scratch, ptr %self.p
  br label %again
again:
  %size = phi i64 [ %size.0, %entry ], [ %size.next, %grown ]
  %ran = phi i64 [ 0, %entry ], [ %ran.next, %grown ]
  %before = phi i64 [ %begin, %entry ], [ %after, %grown ]
  %taken = load atomic i64, ptr %next.p monotonic, align 8
  %left = sub i64 %blocks, %taken
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %claim, label %finish
claim:
  %fair = udiv i64 %left, %parts
  %most = call i64 @llvm.umax.i64(i64 %fair, i64 1)
  %n.0 = call i64 @llvm.umin.i64(i64 %size, i64 %most)
  %n.1 = sub i64 0, %lanes
  %n.2 = and i64 %n.0, %n.1
  %n.3 = call i64 @llvm.umax.i64(i64 %n.2, i64 %lanes)
  %together = icmp uge i64 %most, %few
  %n = select i1 %together, i64 %n.3, i64 %n.0
  %first = atomicrmw add ptr %next.p, i64 %n monotonic
  %got = icmp slt i64 %first, %blocks
  br i1 %got, label %work, label %finish
work:
  %last = add i64 %first, %n
  %end = call i64 @llvm.smin.i64(i64 %last, i64 %blocks)
  %early = call i32 %kernel(ptr %args, ptr %scratch, i64 %first, i64 %end)
  %whole.range = icmp eq i32 %early, 0
  br i1 %whole.range, label %complete, label %halt
complete:
  %count = sub i64 %end, %first
  %ran.next = add i64 %ran, %count
  %after = call i64 @clock()
  %took = sub i64 %after, %before
  %twofold = shl i64 %took, 1
  %short = icmp ult i64 %twofold, %goal
  %whole = icmp uge i64 %n, %size
  %grow = and i1 %short, %whole
  %double = shl i64 %size, 1
  %half.0 = lshr i64 %size, 1
  %half = call i64 @llvm.umax.i64(i64 %half.0, i64 1)
  %triple = shl i64 %goal, 1
  %long = icmp ugt i64 %took, %triple
  %kept = select i1 %long, i64 %half, i64 %size
  %size.next = select i1 %grow, i64 %double, i64 %kept
  %elapsed = sub i64 %after, %begin
  %over = icmp ugt i64 %elapsed, %time
  br i1 %over, label %finish, label %grown
grown:
  br label %again
finish:
  %done = phi i1 [ true, %again ], [ true, %claim ], [ false, %complete ]
  %total = phi i64 [ %ran, %again ], [ %ran, %claim ], [ %ran.next, %complete ]
  %until = phi i64 [ %before, %again ], [ %before, %claim ], [ %after, %complete ]
  %any = icmp ne i64 %total, 0
  br i1 %any, label %cache, label %out
cache:
  %spent = sub i64 %until, %begin
  %each.0 = udiv i64 %spent, %total
  %each = call i64 @llvm.umax.i64(i64 %each.0, i64 1)
  store atomic i64 %each, ptr %cost.p monotonic, align 8
  br label %out
out:
  store ptr null, ptr %job.p
  ret i1 %done
halt:
  store ptr null, ptr %job.p
  call void @halt(ptr %job)
  ret i1 true
}

; Have no more blocks begin, and those that run end at the next look.
define internal void @halt(ptr %job) noinline {
  %stopped.p = getelementptr inbounds i8, ptr %job, i64 <stopped>
  store atomic i64 1, ptr %stopped.p seq_cst, align 8
  %blocks.p = getelementptr inbounds i8, ptr %job, i64 <blocks>
  %blocks = load i64, ptr %blocks.p
  %next.p = getelementptr inbounds i8, ptr %job, i64 <next>
  store atomic i64 %blocks, ptr %next.p seq_cst, align 8
  ret void
}

; Let workers in and wake two; each that joins wakes two more, so that the owner gets to work at once.
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
  %few = call i64 @llvm.umin.i64(i64 %helpers, i64 2)
  call void @rouse_sleepers(ptr %job, i64 %few)
  ret void
}
define internal void @rouse_sleepers(ptr %job, i64 %count) {
  %sleepers.p = getelementptr inbounds i8, ptr %job, i64 <sleepers>
  %sleepers = load atomic i32, ptr %sleepers.p seq_cst, align 4
  %any = icmp ne i32 %sleepers, 0
  br i1 %any, label %some, label %none
some:
  %wake.p = getelementptr inbounds i8, ptr %job, i64 <wake>
  call void @rouse(ptr %wake.p, i64 %count)
  ret void
none:
  ret void
}

; Let no more workers in and wait until the last has left (true). With %patient false, give up after a while (false).
define internal i1 @close(ptr %job, i1 %patient) noinline {
entry:
  %timeout = alloca { i64, i64 }
  store i64 0, ptr %timeout
  %nanoseconds = getelementptr inbounds i8, ptr %timeout, i64 8
  store i64 <SLICE_NS>, ptr %nanoseconds
  %was = atomicrmw and ptr %job, i32 <NOT_OPEN> seq_cst
  %spin = call i64 @ticks(i64 <SPIN_OWNER>)
  %begin = call i64 @clock()
  br label %look
look:
  %s = load atomic i32, ptr %job acquire, align 4
  %count = and i32 %s, <COUNT>
  %empty = icmp eq i32 %count, 0
  br i1 %empty, label %left, label %wait
wait:
  <pause>
  %now = call i64 @clock()
  %waited = sub i64 %now, %begin
  %more = icmp ult i64 %waited, %spin
  br i1 %more, label %look, label %announce
announce:
  %before = atomicrmw or ptr %job, i32 <WAITING> seq_cst
  %seen = or i32 %before, <WAITING>
  %in = and i32 %before, <COUNT>
  %gone = icmp eq i32 %in, 0
  br i1 %gone, label %left, label %down
down:
  call void @sleep(ptr %job, i32 %seen, ptr %timeout)
  %s2 = load atomic i32, ptr %job acquire, align 4
  %in2 = and i32 %s2, <COUNT>
  %gone2 = icmp eq i32 %in2, 0
  br i1 %gone2, label %left, label %still
still:
  %end = call i64 @clock()
  %slept = sub i64 %end, %begin
  %slice = call i64 @ticks(i64 <SLICE>)
  %late = icmp ugt i64 %slept, %slice
  %impatient = xor i1 %patient, true
  %stop = and i1 %late, %impatient
  br i1 %stop, label %out, label %announce
left:
  br label %out
out:
  %empty.now = phi i1 [ true, %left ], [ false, %still ]
  ret i1 %empty.now
}
; The launch is over, DONE or STOPPED.
define internal i32 @disown(ptr %job) alwaysinline {
  %stopped.p = getelementptr inbounds i8, ptr %job, i64 <stopped>
  %stopped = load atomic i64, ptr %stopped.p monotonic, align 8
  %whole = icmp eq i64 %stopped, 0
  %status = select i1 %whole, i32 <DONE>, i32 <STOPPED>
  %owner.p = getelementptr inbounds i8, ptr %job, i64 <owner>
  store atomic i64 0, ptr %owner.p release, align 8
  ret i32 %status
}

; Begin a launch: DONE, STOPPED (a signal handler has raised an exception, which the watch of this thread's scratch
; memory holds), AGAIN (call `resume`, after looking for signals) or BUSY (another launch has the job).
define i32 @start(ptr %job, i64 %token, ptr %kernel, ptr %args, i64 %blocks, i64 %helpers, i64 %bytes, ptr %scratch) {
entry:
  %owner.p = getelementptr inbounds i8, ptr %job, i64 <owner>
  %pair = cmpxchg ptr %owner.p, i64 0, i64 %token seq_cst monotonic
  %mine = extractvalue { i64, i1 } %pair, 1
  br i1 %mine, label %fill, label %busy
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
  br i1 %no.helpers, label %go, label %estimate
estimate:
  %cost.p = call ptr @cost_of(ptr %kernel)
  %cost = load atomic i64, ptr %cost.p monotonic, align 8
  %known = icmp ne i64 %cost, 0
  %product = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %cost, i64 %blocks)
  %all = extractvalue { i64, i1 } %product, 0
  %huge = extractvalue { i64, i1 } %product, 1
  %little = call i64 @ticks(i64 <ALONE>)
  %small = icmp ult i64 %all, %little
  %fits = xor i1 %huge, true
  %cheap.0 = and i1 %known, %small
  %cheap = and i1 %cheap.0, %fits
  br i1 %cheap, label %try, label %split
try:
  %finished = call i1 @take(ptr %job, ptr %scratch, i64 %little)
  br i1 %finished, label %done, label %split
done:
  %status = call i32 @disown(ptr %job)
  ret i32 %status
split:
  call void @open(ptr %job)
  br label %go
go:
  %r = call i32 @resume(ptr %job, ptr %scratch)
  ret i32 %r
}
define i32 @resume(ptr %job, ptr %scratch) {
entry:
  %slice = call i64 @ticks(i64 <SLICE>)
  %finished = call i1 @take(ptr %job, ptr %scratch, i64 %slice)
  br i1 %finished, label %leave, label %again
leave:
  %opened.p = getelementptr inbounds i8, ptr %job, i64 <opened>
  %opened = load i64, ptr %opened.p
  %shared = icmp ne i64 %opened, 0
  br i1 %shared, label %shut, label %done
shut:
  %empty = call i1 @close(ptr %job, i1 false)
  br i1 %empty, label %done, label %again
done:
  %status = call i32 @disown(ptr %job)
  ret i32 %status
again:
  ret i32 <AGAIN>
}

; Give up a launch if it still has the job: start no more blocks, wait for those that run to see that.
define void @stop(ptr %job, i64 %token) {
entry:
  %owner.p = getelementptr inbounds i8, ptr %job, i64 <owner>
  %owner = load atomic i64, ptr %owner.p acquire, align 8
  %mine = icmp eq i64 %owner, %token
  br i1 %mine, label %drop, label %out
drop:
  call void @halt(ptr %job)
  %empty = call i1 @close(ptr %job, i1 true)
  %status = call i32 @disown(ptr %job)
  br label %out
out:
  ret void
}

; A worker's scratch memory, at least %bytes of it after its watch; null if there is none to be had.
define internal ptr @grow(ptr %old, i64 %old.bytes, i64 %bytes) noinline {
entry:
  %had = icmp ne ptr %old, null
  br i1 %had, label %free, label %map
free:
  %at = ptrtoint ptr %old to i64
  %old.base = sub i64 %at, <WATCH_BYTES>
  %old.all = add i64 %old.bytes, <WATCH_BYTES>
  %freed = call i64 @system(i64 <munmap>, i64 %old.base, i64 %old.all, i64 0, i64 0, i64 0, i64 0)
  br label %map
map:
  %all = add i64 %bytes, <WATCH_BYTES>
  %new = call i64 @system(i64 <mmap>, i64 0, i64 %all, i64 3, i64 34, i64 -1, i64 0)
  %failed = icmp ugt i64 %new, -4096
  %after = add i64 %new, <WATCH_BYTES>
  %address = select i1 %failed, i64 0, i64 %after
  %pointer = inttoptr i64 %address to ptr
  ret ptr %pointer
}

; A worker's life.
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
  %most = call i64 @ticks(i64 <SPIN_MOST>)
  %least = call i64 @ticks(i64 <SPIN_LEAST>)
  %wake.0 = load atomic i32, ptr %wake.p acquire, align 4
  %unseen = sub i32 %wake.0, 1
  store i32 %unseen, ptr %seen.p
  store i64 %most, ptr %spin.p
  store ptr null, ptr %scratch.p
  store i64 0, ptr %size.p
  br label %look
look:
  %wake = load atomic i32, ptr %wake.p acquire, align 4
  %seen = load i32, ptr %seen.p
  %nothing = icmp eq i32 %wake, %seen
  br i1 %nothing, label %idle, label %fresh
fresh:
  store i32 %wake, ptr %seen.p
  br label %knock
knock:
  %s = load atomic i32, ptr %job acquire, align 4
  %open.bit = and i32 %s, <OPEN>
  %is.open = icmp ne i32 %open.bit, 0
  %in = and i32 %s, <COUNT>
  %limit.0 = lshr i32 %s, <LIMIT_SHIFT>
  %limit = and i32 %limit.0, <COUNT>
  %room = icmp ult i32 %in, %limit
  %may = and i1 %is.open, %room
  br i1 %may, label %enter, label %look
enter:
  %s.in = add i32 %s, 1
  %pair = cmpxchg ptr %job, i32 %s, i32 %s.in acq_rel monotonic
  %entered = extractvalue { i32, i1 } %pair, 1
  br i1 %entered, label %inside, label %knock
inside:
  store i64 %most, ptr %spin.p
  %taken = load atomic i64, ptr %next.p monotonic, align 8
  %blocks = load i64, ptr %blocks.p
  %more = icmp slt i64 %taken, %blocks
  br i1 %more, label %spread, label %leave
spread:
  %others = icmp ugt i32 %limit, 1
  br i1 %others, label %call, label %prepare
call:
  call void @rouse_sleepers(ptr %job, i64 2)
  br label %prepare
prepare:
  %bytes = load i64, ptr %bytes.p
  %size = load i64, ptr %size.p
  %known = load ptr, ptr %scratch.p
  %nothing.yet = icmp eq ptr %known, null
  %less = icmp ult i64 %size, %bytes
  %small = or i1 %nothing.yet, %less
  br i1 %small, label %enlarge, label %work
enlarge:
  %old = load ptr, ptr %scratch.p
  %new = call ptr @grow(ptr %old, i64 %size, i64 %bytes)
  store ptr %new, ptr %scratch.p
  %none = icmp eq ptr %new, null
  %new.size = select i1 %none, i64 0, i64 %bytes
  store i64 %new.size, ptr %size.p
  br i1 %none, label %leave, label %work
work:
  %scratch = load ptr, ptr %scratch.p
  %finished = call i1 @take(ptr %job, ptr %scratch, i64 9223372036854775807)
  br label %leave
leave:
  %s.before = atomicrmw sub ptr %job, i32 1 seq_cst
  %open.still = and i32 %s.before, <OPEN>
  %closed = icmp eq i32 %open.still, 0
  %waiting.bit = and i32 %s.before, <WAITING>
  %waiting = icmp ne i32 %waiting.bit, 0
  %were.in = and i32 %s.before, <COUNT>
  %was.last = icmp eq i32 %were.in, 1
  %end.0 = and i1 %closed, %waiting
  %end = and i1 %end.0, %was.last
  br i1 %end, label %report, label %look
report:
  call void @rouse(ptr %job, i64 1)
  br label %look
idle:
  %spin = load i64, ptr %spin.p
  %begin = call i64 @clock()
  br label %watch
watch:
  <pause>
  %wake.1 = load atomic i32, ptr %wake.p acquire, align 4
  %changed = icmp ne i32 %wake.1, %seen
  br i1 %changed, label %look, label %still
still:
  %now = call i64 @clock()
  %waited = sub i64 %now, %begin
  %longer = icmp ult i64 %waited, %spin
  br i1 %longer, label %watch, label %rest
rest:
  %half = lshr i64 %spin, 1
  %half.or.least = call i64 @llvm.umax.i64(i64 %half, i64 %least)
  store i64 %half.or.least, ptr %spin.p
  %up = atomicrmw add ptr %sleepers.p, i32 1 seq_cst
  call void @sleep(ptr %wake.p, i32 %seen, ptr null)
  %down = atomicrmw sub ptr %sleepers.p, i32 1 seq_cst
  br label %look
}
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)
"""


def thunk_text(x86: bool) -> str:
    """LLVM IR of `start`, `resume`, `stop`, `serve` and the watch's `look` for x86-64, or else AArch64, on Linux."""
    names = dict(_FIELDS) | (_X86 if x86 else _ARM) | {
        "scaled": "add i64 0, %all" if x86 else "udiv i64 %all, 1000000",
        "NOT_OPEN": ~OPEN, "SLICE_NS": SLICE * 1000,
        **{name: globals()[name] for name in ("OPEN", "WAITING", "LIMIT_SHIFT", "COUNT")},
        **{name: globals()[name] for name in ("DONE", "AGAIN", "BUSY", "STOPPED")},
        **{name: globals()[name] for name in ("RANGE", "ALONE", "SPIN_MOST", "SPIN_LEAST", "SPIN_OWNER", "SLICE")},
    }  # fmt: skip
    names |= watch.NAMES | {"gettid": 186 if x86 else 178, "getpid": 39 if x86 else 172}
    text = _TEXT + watch.TEXT
    for name, value in names.items():
        text = text.replace(f"<{name}>", str(value))
    return text
