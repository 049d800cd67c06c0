"""LLVM IR of native code that handles the arguments of a launch (see backend/launcher.py): the code appends the
specialisation of each argument to the key, and writes the kernel's argument block. Names in angle brackets are
placeholders of numbers."""

from __future__ import annotations

BASICS = """@globals = internal global ptr null

define void @begin(ptr %globals) {
  store ptr %globals, ptr @globals
  ret void
}
define internal ptr @load_global(i64 %at) alwaysinline {
  %globals = load ptr, ptr @globals
  %p = getelementptr i8, ptr %globals, i64 %at
  %value = load ptr, ptr %p
  ret ptr %value
}
define internal i64 @load_word(ptr %base, i64 %at) alwaysinline {
  %p = getelementptr i8, ptr %base, i64 %at
  %value = load i64, ptr %p, align 8
  ret i64 %value
}
define internal void @store_word(ptr %base, i64 %at, i64 %value) alwaysinline {
  %p = getelementptr i8, ptr %base, i64 %at
  store i64 %value, ptr %p, align 8
  ret void
}
define internal i1 @is_a(ptr %object, i64 %type) alwaysinline {
  %p = getelementptr i8, ptr %object, i64 8
  %actual = load ptr, ptr %p
  %expected = call ptr @load_global(i64 %type)
  %same = icmp eq ptr %actual, %expected
  ret i1 %same
}
define internal ptr @global_reference(i64 %at) {
  %object = call ptr @load_global(i64 %at)
  call void @Py_IncRef(ptr %object)
  ret ptr %object
}

; Append a word to the key. Words beyond MAX_WORDS are counted but not stored.
define internal void @append_key(ptr %frame, i64 %value) {
  %n = call i64 @load_word(ptr %frame, i64 <F.count>)
  %last = sub i64 <MAX_WORDS>, 1
  %k = call i64 @llvm.umin.i64(i64 %n, i64 %last)
  %key = getelementptr i8, ptr %frame, i64 <F.key>
  %p = getelementptr i64, ptr %key, i64 %k
  store i64 %value, ptr %p
  %n.next = add i64 %n, 1
  call void @store_word(ptr %frame, i64 <F.count>, i64 %n.next)
  ret void
}
; Append a word to the kernel's argument block, whose size Python code has checked.
define internal void @append_argument(ptr %frame, i64 %value) {
  %n = call i64 @load_word(ptr %frame, i64 <F.bytes>)
  %data = getelementptr i8, ptr %frame, i64 <F.data>
  call void @store_word(ptr %data, i64 %n, i64 %value)
  %n.next = add i64 %n, 8
  call void @store_word(ptr %frame, i64 <F.bytes>, i64 %n.next)
  ret void
}
define internal void @copy(ptr %to, ptr %from, i64 %bytes) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %body ]
  %in.range = icmp ult i64 %k, %bytes
  br i1 %in.range, label %body, label %finish
body:
  %value = call i64 @load_word(ptr %from, i64 %k)
  call void @store_word(ptr %to, i64 %k, i64 %value)
  %next = add i64 %k, 8
  br label %loop
finish:
  ret void
}
define internal i1 @equal(ptr %a, ptr %b, i64 %bytes) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %body ]
  %in.range = icmp ult i64 %k, %bytes
  br i1 %in.range, label %body, label %finish
body:
  %x = call i64 @load_word(ptr %a, i64 %k)
  %y = call i64 @load_word(ptr %b, i64 %k)
  %next = add i64 %k, 8
  %same = icmp eq i64 %x, %y
  br i1 %same, label %loop, label %finish
finish:
  %are.equal = xor i1 %in.range, true
  ret i1 %are.equal
}

; The length of a list or tuple; -1 for any other object.
define internal i64 @length(ptr %sequence) {
  %list = call i1 @is_a(ptr %sequence, i64 <W.list>)
  br i1 %list, label %of.list, label %other
of.list:
  %n = call i64 @PyList_Size(ptr %sequence)
  ret i64 %n
other:
  %tuple = call i1 @is_a(ptr %sequence, i64 <W.tuple>)
  br i1 %tuple, label %of.tuple, label %no.sequence
of.tuple:
  %m = call i64 @PyTuple_Size(ptr %sequence)
  ret i64 %m
no.sequence:
  ret i64 -1
}
define internal ptr @item(ptr %sequence, i64 %k) {
  %list = call i1 @is_a(ptr %sequence, i64 <W.list>)
  br i1 %list, label %of.list, label %of.tuple
of.list:
  %a = call ptr @PyList_GetItem(ptr %sequence, i64 %k)
  ret ptr %a
of.tuple:
  %b = call ptr @PyTuple_GetItem(ptr %sequence, i64 %k)
  ret ptr %b
}
"""

ARGUMENTS = """
; Numbers -------------------------------------------------------------------------------------------------------------

; Convert an int of at most 64 bits, and write the value to %out; whether the conversion succeeded.
define internal i1 @integer(ptr %object, ptr %out) {
entry:
  %overflow = alloca i32
  %int = call i1 @is_a(ptr %object, i64 <W.int>)
  br i1 %int, label %read, label %no
read:
  %value = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %overflow)
  store i64 %value, ptr %out
  %overflowed = load i32, ptr %overflow
  %fits = icmp eq i32 %overflowed, 0
  ret i1 %fits
no:
  ret i1 false
}
; Convert a float or int to float64, and write the value to %out; whether the conversion succeeded.
define internal i1 @real(ptr %object, ptr %out) {
entry:
  %integer.p = alloca i64
  %float = call i1 @is_a(ptr %object, i64 <W.float>)
  br i1 %float, label %read, label %other
read:
  %value = call double @PyFloat_AsDouble(ptr %object)
  store double %value, ptr %out
  ret i1 true
other:
  %int = call i1 @integer(ptr %object, ptr %integer.p)
  %value.integer = load i64, ptr %integer.p
  %converted = sitofp i64 %value.integer to double
  store double %converted, ptr %out
  ret i1 %int
}
; Append an integer or bool to the argument block, and to the key if guards of launches depend on the value.
define internal void @scalar(ptr %frame, ptr %argument, i64 %bits) {
  call void @append_argument(ptr %frame, i64 %bits)
  %keyed.word = call i64 @load_word(ptr %argument, i64 <KEYED_AT>)
  %keyed = icmp ne i64 %keyed.word, 0
  br i1 %keyed, label %append, label %done
append:
  call void @append_key(ptr %frame, i64 %bits)
  br label %done
done:
  ret void
}
define internal i1 @number(ptr %frame, ptr %argument, ptr %object) {
entry:
  %integer.p = alloca i64
  %real.p = alloca double
  %kind = call i64 @load_word(ptr %argument, i64 0)
  switch i64 %kind, label %boolean [
    i64 <INTEGER>, label %integer
    i64 <SINGLE>, label %read.single
    i64 <DOUBLE>, label %read.double
  ]
integer:
  %is.int = call i1 @integer(ptr %object, ptr %integer.p)
  br i1 %is.int, label %range, label %no
range:
  %value = load i64, ptr %integer.p
  %minimum = call i64 @load_word(ptr %argument, i64 16)
  %maximum = call i64 @load_word(ptr %argument, i64 24)
  %mask = call i64 @load_word(ptr %argument, i64 32)
  %not.below = icmp sge i64 %value, %minimum
  %not.above = icmp sle i64 %value, %maximum
  %masked = and i64 %value, %mask
  call void @scalar(ptr %frame, ptr %argument, i64 %masked)
  %in.range = and i1 %not.below, %not.above
  ret i1 %in.range
read.single:
  %is.single = call i1 @real(ptr %object, ptr %real.p)
  br i1 %is.single, label %narrow, label %no
narrow:
  %value.double = load double, ptr %real.p
  %value.single = fptrunc double %value.double to float
  %magnitude = call float @llvm.fabs.f32(float %value.single)
  %is.infinite = fcmp oeq float %magnitude, 0x7FF0000000000000
  %double.magnitude = call double @llvm.fabs.f64(double %value.double)
  %finite = fcmp one double %double.magnitude, 0x7FF0000000000000
  %overflows = and i1 %is.infinite, %finite
  %bits = bitcast float %value.single to i32
  %bits.64 = zext i32 %bits to i64
  call void @append_argument(ptr %frame, i64 %bits.64)
  %representable = xor i1 %overflows, true
  ret i1 %representable
read.double:
  %is.double = call i1 @real(ptr %object, ptr %real.p)
  %double.bits = load i64, ptr %real.p
  call void @append_argument(ptr %frame, i64 %double.bits)
  ret i1 %is.double
boolean:
  %true = call ptr @load_global(i64 <W.True>)
  %false = call ptr @load_global(i64 <W.False>)
  %is.true = icmp eq ptr %object, %true
  %is.false = icmp eq ptr %object, %false
  %bit = zext i1 %is.true to i64
  call void @scalar(ptr %frame, ptr %argument, i64 %bit)
  %is.bool = or i1 %is.true, %is.false
  ret i1 %is.bool
no:
  ret i1 false
}

; Arrays --------------------------------------------------------------------------------------------------------------

define internal i1 @range(ptr %frame, i64 %low, i64 %high) {
  %n = call i64 @load_word(ptr %frame, i64 <F.arrays>)
  %has.room = icmp ult i64 %n, <MAX_ARRAYS>
  br i1 %has.room, label %store, label %full
store:
  %ranges = getelementptr i8, ptr %frame, i64 <F.ranges>
  %at = shl i64 %n, 4
  %at.high = or i64 %at, 8
  call void @store_word(ptr %ranges, i64 %at, i64 %low)
  call void @store_word(ptr %ranges, i64 %at.high, i64 %high)
  %n.next = add i64 %n, 1
  call void @store_word(ptr %frame, i64 <F.arrays>, i64 %n.next)
  ret i1 true
full:
  ret i1 false
}
; Whether no two arrays overlap.
define internal i1 @are_disjoint(ptr %frame) {
entry:
  %n = call i64 @load_word(ptr %frame, i64 <F.arrays>)
  %end = shl i64 %n, 4
  %ranges = getelementptr i8, ptr %frame, i64 <F.ranges>
  br label %outer
outer:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next.outer ]
  %i.more = icmp ult i64 %i, %end
  br i1 %i.more, label %load.first, label %yes
load.first:
  %i.high = or i64 %i, 8
  %low = call i64 @load_word(ptr %ranges, i64 %i)
  %high = call i64 @load_word(ptr %ranges, i64 %i.high)
  %i.next = add i64 %i, 16
  br label %inner
inner:
  %j = phi i64 [ %i.next, %load.first ], [ %j.next, %next.inner ]
  %j.more = icmp ult i64 %j, %end
  br i1 %j.more, label %compare, label %next.outer
compare:
  %j.high = or i64 %j, 8
  %other.low = call i64 @load_word(ptr %ranges, i64 %j)
  %other.high = call i64 @load_word(ptr %ranges, i64 %j.high)
  %before = icmp sge i64 %other.low, %high
  %after = icmp sge i64 %low, %other.high
  %disjoint = or i1 %before, %after
  br i1 %disjoint, label %next.inner, label %no
next.inner:
  %j.next = add i64 %j, 16
  br label %inner
next.outer:
  br label %outer
yes:
  ret i1 true
no:
  ret i1 false
}
; Append a tg.array: the id of its specialisation, its first and last address, and its description.
define internal i1 @array(ptr %frame, ptr %argument, ptr %object) {
entry:
  %name = call ptr @load_global(i64 <W.header>)
  %header = call ptr @PyObject_GetAttr(ptr %object, ptr %name)
  %no.header = icmp eq ptr %header, null
  br i1 %no.header, label %failed, label %get.words
get.words:
  %words = call ptr @PyBytes_AsString(ptr %header)
  %no.words = icmp eq ptr %words, null
  br i1 %no.words, label %release, label %read
read:
  %id = call i64 @load_word(ptr %words, i64 0)
  call void @append_key(ptr %frame, i64 %id)
  %low = call i64 @load_word(ptr %words, i64 8)
  %high = call i64 @load_word(ptr %words, i64 16)
  %has.room = call i1 @range(ptr %frame, i64 %low, i64 %high)
  %bytes = call i64 @load_word(ptr %words, i64 24)
  %expected = call i64 @load_word(ptr %argument, i64 8)
  %any.size = icmp eq i64 %expected, 0
  %same.size = icmp eq i64 %bytes, %expected
  %fits = or i1 %any.size, %same.size
  %accepted = and i1 %has.room, %fits
  br i1 %accepted, label %append, label %release
append:
  %keyed.word = call i64 @load_word(ptr %argument, i64 16)
  %keyed = icmp ne i64 %keyed.word, 0
  %aligned = icmp eq i64 %keyed.word, <WITH_ALIGNMENT>
  br label %loop
loop:
  %k = phi i64 [ 0, %append ], [ %next, %step ]
  %in.range = icmp ult i64 %k, %bytes
  br i1 %in.range, label %body, label %finish
body:
  %at = add i64 %k, 32
  %w = call i64 @load_word(ptr %words, i64 %at)
  call void @append_argument(ptr %frame, i64 %w)
  br i1 %keyed, label %append.word, label %step
append.word:
  %is.address = icmp eq i64 %k, 0
  %reduce = and i1 %is.address, %aligned
  %alignment = and i64 %w, 63
  %key.word = select i1 %reduce, i64 %alignment, i64 %w
  call void @append_key(ptr %frame, i64 %key.word)
  br label %step
step:
  %next = add i64 %k, 8
  br label %loop
finish:
  %n = call i64 @load_word(ptr %frame, i64 <F.native>)
  %n.1 = add i64 %n, 1
  call void @store_word(ptr %frame, i64 <F.native>, i64 %n.1)
  call void @Py_DecRef(ptr %header)
  ret i1 true
release:
  call void @Py_DecRef(ptr %header)
  br label %failed
failed:
  call void @PyErr_Clear()
  ret i1 false
}
; Append a tensor of PyTorch on a GPU, described by DLPack. The specialisation depends on the tensor's type, shape,
; strides, and the alignment of its address.
define internal i1 @tensor(ptr %frame, ptr %argument, ptr %object) {
entry:
  %fits.word = call i64 @load_word(ptr %argument, i64 24)
  %accepts.tensors = icmp ne i64 %fits.word, 0
  br i1 %accepts.tensors, label %query, label %no
query:
  %function = call ptr @load_global(i64 <W.describe_tensor>)
  %t = getelementptr i8, ptr %frame, i64 <F.tensor>
  %code = call i32 %function(ptr %object, ptr %t)
  %succeeded = icmp eq i32 %code, 0
  br i1 %succeeded, label %check, label %failed
check:
  %device = call i64 @load_word(ptr %t, i64 8)
  %kind = and i64 %device, 4294967295
  %is.cuda = icmp eq i64 %kind, <CUDA>
  %type = call i64 @load_word(ptr %t, i64 16)
  %rank = and i64 %type, 4294967295
  %lanes = lshr i64 %type, 48
  %is.scalar = icmp eq i64 %lanes, 1
  %bits.0 = lshr i64 %type, 40
  %bits = and i64 %bits.0, 255
  %odd.bits = and i64 %bits, 7
  %whole.bytes = icmp eq i64 %odd.bits, 0
  %size = lshr i64 %bits, 3
  %dimension.bytes = shl i64 %rank, 4
  %bytes = add i64 %dimension.bytes, 8
  %expected = call i64 @load_word(ptr %argument, i64 8)
  %any.rank.accepted = icmp eq i64 %expected, 0
  %rank.fits = icmp ule i64 %rank, <MAX_DIMENSIONS>
  %any.rank = and i1 %any.rank.accepted, %rank.fits
  %same.size = icmp eq i64 %bytes, %expected
  %fits = or i1 %any.rank, %same.size
  %strides.word = call i64 @load_word(ptr %t, i64 32)
  %strided = icmp ne i64 %strides.word, 0
  %ok.0 = and i1 %is.cuda, %is.scalar
  %ok.1 = and i1 %ok.0, %whole.bytes
  %ok.2 = and i1 %ok.1, %fits
  %ok = and i1 %ok.2, %strided
  br i1 %ok, label %append, label %no
append:
  %data = call i64 @load_word(ptr %t, i64 0)
  %offset = call i64 @load_word(ptr %t, i64 40)
  %address = add i64 %data, %offset
  %shape.word = call i64 @load_word(ptr %t, i64 24)
  %shape = inttoptr i64 %shape.word to ptr
  %strides = inttoptr i64 %strides.word to ptr
  %ordinal = lshr i64 %device, 32
  call void @store_word(ptr %frame, i64 <F.ordinal>, i64 %ordinal)
  ; The word is negative; ids of specialisations are not.
  %type.high = lshr i64 %type, 32
  %ordinal.high = shl i64 %ordinal, 32
  %dimensions = shl i64 %rank, 56
  %ordinal.and.rank = or i64 %ordinal.high, %dimensions
  %description = or i64 %ordinal.and.rank, %type.high
  %key.word = xor i64 %description, -1
  call void @append_key(ptr %frame, i64 %key.word)
  %keyed.word = call i64 @load_word(ptr %argument, i64 16)
  %keyed = icmp eq i64 %keyed.word, <WITH_ADDRESS>
  %alignment = and i64 %address, 63
  %address.word = select i1 %keyed, i64 %address, i64 %alignment
  call void @append_key(ptr %frame, i64 %address.word)
  call void @append_argument(ptr %frame, i64 %address)
  %end = shl i64 %rank, 3
  br label %shape.head
shape.head:
  %i = phi i64 [ 0, %append ], [ %i.next, %shape.body ]
  %i.more = icmp ult i64 %i, %end
  br i1 %i.more, label %shape.body, label %strides.head
shape.body:
  %n = call i64 @load_word(ptr %shape, i64 %i)
  call void @append_key(ptr %frame, i64 %n)
  call void @append_argument(ptr %frame, i64 %n)
  %i.next = add i64 %i, 8
  br label %shape.head
strides.head:
  %j = phi i64 [ 0, %shape.head ], [ %j.next, %strides.body ]
  %low = phi i64 [ %address, %shape.head ], [ %low.next, %strides.body ]
  %high = phi i64 [ %address, %shape.head ], [ %high.next, %strides.body ]
  %is.empty = phi i1 [ false, %shape.head ], [ %is.empty.next, %strides.body ]
  %j.more = icmp ult i64 %j, %end
  br i1 %j.more, label %strides.body, label %finish
strides.body:
  %count = call i64 @load_word(ptr %shape, i64 %j)
  %elements = call i64 @load_word(ptr %strides, i64 %j)
  %stride = mul i64 %elements, %size
  call void @append_key(ptr %frame, i64 %stride)
  call void @append_argument(ptr %frame, i64 %stride)
  %last = sub i64 %count, 1
  %extent = mul i64 %stride, %last
  %lower = call i64 @llvm.smin.i64(i64 %extent, i64 0)
  %upper = call i64 @llvm.smax.i64(i64 %extent, i64 0)
  %low.next = add i64 %low, %lower
  %high.next = add i64 %high, %upper
  %zero = icmp eq i64 %count, 0
  %is.empty.next = or i1 %is.empty, %zero
  %j.next = add i64 %j, 8
  br label %strides.head
finish:
  %last.end = add i64 %high, %size
  %range.end = select i1 %is.empty, i64 %low, i64 %last.end
  %has.room = call i1 @range(ptr %frame, i64 %low, i64 %range.end)
  %m = call i64 @load_word(ptr %frame, i64 <F.foreign>)
  %m.1 = add i64 %m, 1
  call void @store_word(ptr %frame, i64 <F.foreign>, i64 %m.1)
  ret i1 %has.room
failed:
  call void @PyErr_Clear()
  br label %no
no:
  ret i1 false
}
define internal i1 @argument(ptr %frame, ptr %argument, ptr %object) {
  %kind = call i64 @load_word(ptr %argument, i64 0)
  %is.array = icmp eq i64 %kind, <ARRAY>
  br i1 %is.array, label %arrays, label %numbers
arrays:
  %is.native = call i1 @is_a(ptr %object, i64 <W.array>)
  br i1 %is.native, label %native, label %check.tensor
native:
  %a = call i1 @array(ptr %frame, ptr %argument, ptr %object)
  ret i1 %a
check.tensor:
  %is.tensor = call i1 @is_a(ptr %object, i64 <W.tensor>)
  %is.parameter = call i1 @is_a(ptr %object, i64 <W.parameter>)
  %is.foreign = or i1 %is.tensor, %is.parameter
  br i1 %is.foreign, label %foreign, label %no
foreign:
  %b = call i1 @tensor(ptr %frame, ptr %argument, ptr %object)
  ret i1 %b
numbers:
  %c = call i1 @number(ptr %frame, ptr %argument, ptr %object)
  ret i1 %c
no:
  ret i1 false
}
"""
