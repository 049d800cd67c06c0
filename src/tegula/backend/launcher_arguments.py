"""LLVM IR that handles the arguments of a launch in machine code (see backend/launcher.py): the code adds the
specialisation of each argument to the key, and writes the kernel's argument block. Names in angle brackets are
placeholders of numbers."""

from __future__ import annotations

BASICS = """@world = internal global ptr null

define void @begin(ptr %world) {
  store ptr %world, ptr @world
  ret void
}
define internal ptr @thing(i64 %at) alwaysinline {
  %world = load ptr, ptr @world
  %p = getelementptr i8, ptr %world, i64 %at
  %thing = load ptr, ptr %p
  ret ptr %thing
}
define internal i64 @word(ptr %base, i64 %at) alwaysinline {
  %p = getelementptr i8, ptr %base, i64 %at
  %w = load i64, ptr %p, align 8
  ret i64 %w
}
define internal void @set(ptr %base, i64 %at, i64 %w) alwaysinline {
  %p = getelementptr i8, ptr %base, i64 %at
  store i64 %w, ptr %p, align 8
  ret void
}
define internal i1 @is_a(ptr %object, i64 %type) alwaysinline {
  %p = getelementptr i8, ptr %object, i64 8
  %its = load ptr, ptr %p
  %wanted = call ptr @thing(i64 %type)
  %same = icmp eq ptr %its, %wanted
  ret i1 %same
}
define internal ptr @constant(i64 %which) {
  %object = call ptr @thing(i64 %which)
  call void @Py_IncRef(ptr %object)
  ret ptr %object
}

; Words of the key; what does not fit is counted only.
define internal void @note(ptr %frame, i64 %w) {
  %n = call i64 @word(ptr %frame, i64 <F.count>)
  %last = sub i64 <MAX_WORDS>, 1
  %k = call i64 @llvm.umin.i64(i64 %n, i64 %last)
  %key = getelementptr i8, ptr %frame, i64 <F.key>
  %p = getelementptr i64, ptr %key, i64 %k
  store i64 %w, ptr %p
  %more = add i64 %n, 1
  call void @set(ptr %frame, i64 <F.count>, i64 %more)
  ret void
}
; A word of what the kernel reads, of which there are never too many.
define internal void @emit(ptr %frame, i64 %w) {
  %n = call i64 @word(ptr %frame, i64 <F.bytes>)
  %data = getelementptr i8, ptr %frame, i64 <F.data>
  call void @set(ptr %data, i64 %n, i64 %w)
  %more = add i64 %n, 8
  call void @set(ptr %frame, i64 <F.bytes>, i64 %more)
  ret void
}
define internal void @copy(ptr %to, ptr %from, i64 %bytes) {
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp ult i64 %k, %bytes
  br i1 %more, label %body, label %out
body:
  %w = call i64 @word(ptr %from, i64 %k)
  call void @set(ptr %to, i64 %k, i64 %w)
  %next = add i64 %k, 8
  br label %head
out:
  ret void
}
define internal i1 @equal(ptr %a, ptr %b, i64 %bytes) {
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp ult i64 %k, %bytes
  br i1 %more, label %body, label %out
body:
  %x = call i64 @word(ptr %a, i64 %k)
  %y = call i64 @word(ptr %b, i64 %k)
  %next = add i64 %k, 8
  %same = icmp eq i64 %x, %y
  br i1 %same, label %head, label %out
out:
  %all = xor i1 %more, true
  ret i1 %all
}

; Lists and tuples; -1 for anything else.
define internal i64 @length(ptr %sequence) {
  %list = call i1 @is_a(ptr %sequence, i64 <W.list>)
  br i1 %list, label %of.list, label %other
of.list:
  %n = call i64 @PyList_Size(ptr %sequence)
  ret i64 %n
other:
  %tuple = call i1 @is_a(ptr %sequence, i64 <W.tuple>)
  br i1 %tuple, label %of.tuple, label %neither
of.tuple:
  %m = call i64 @PyTuple_Size(ptr %sequence)
  ret i64 %m
neither:
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

; A plain int of 64 bits, which is written to %out.
define internal i1 @integer(ptr %object, ptr %out) {
entry:
  %overflow = alloca i32
  %int = call i1 @is_a(ptr %object, i64 <W.int>)
  br i1 %int, label %read, label %no
read:
  %value = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %overflow)
  store i64 %value, ptr %out
  %over = load i32, ptr %overflow
  %fits = icmp eq i32 %over, 0
  ret i1 %fits
no:
  ret i1 false
}
; A plain float or int as float64.
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
  %whole = load i64, ptr %integer.p
  %converted = sitofp i64 %whole to double
  store double %converted, ptr %out
  ret i1 %int
}
; An integer or bool in the argument block, and in the key if guards of launches depend on it.
define internal void @scalar(ptr %frame, ptr %argument, i64 %bits) {
  call void @emit(ptr %frame, i64 %bits)
  %keyed.word = call i64 @word(ptr %argument, i64 <KEYED_AT>)
  %keyed = icmp ne i64 %keyed.word, 0
  br i1 %keyed, label %remember, label %done
remember:
  call void @note(ptr %frame, i64 %bits)
  br label %done
done:
  ret void
}
define internal i1 @number(ptr %frame, ptr %argument, ptr %object) {
entry:
  %integer.p = alloca i64
  %real.p = alloca double
  %kind = call i64 @word(ptr %argument, i64 0)
  switch i64 %kind, label %boolean [
    i64 <INTEGER>, label %whole
    i64 <SINGLE>, label %single
    i64 <DOUBLE>, label %double
  ]
whole:
  %is.int = call i1 @integer(ptr %object, ptr %integer.p)
  br i1 %is.int, label %range, label %no
range:
  %value = load i64, ptr %integer.p
  %least = call i64 @word(ptr %argument, i64 16)
  %most = call i64 @word(ptr %argument, i64 24)
  %mask = call i64 @word(ptr %argument, i64 32)
  %above = icmp sge i64 %value, %least
  %below = icmp sle i64 %value, %most
  %kept = and i64 %value, %mask
  call void @scalar(ptr %frame, ptr %argument, i64 %kept)
  %in = and i1 %above, %below
  ret i1 %in
single:
  %is.single = call i1 @real(ptr %object, ptr %real.p)
  br i1 %is.single, label %narrowed, label %no
narrowed:
  %wide = load double, ptr %real.p
  %narrow = fptrunc double %wide to float
  %size = call float @llvm.fabs.f32(float %narrow)
  %large = fcmp oeq float %size, 0x7FF0000000000000
  %wide.size = call double @llvm.fabs.f64(double %wide)
  %finite = fcmp one double %wide.size, 0x7FF0000000000000
  %lost = and i1 %large, %finite
  %bits = bitcast float %narrow to i32
  %bits.64 = zext i32 %bits to i64
  call void @emit(ptr %frame, i64 %bits.64)
  %held = xor i1 %lost, true
  ret i1 %held
double:
  %is.double = call i1 @real(ptr %object, ptr %real.p)
  %all = load i64, ptr %real.p
  call void @emit(ptr %frame, i64 %all)
  ret i1 %is.double
boolean:
  %true = call ptr @thing(i64 <W.True>)
  %false = call ptr @thing(i64 <W.False>)
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
  %n = call i64 @word(ptr %frame, i64 <F.arrays>)
  %room = icmp ult i64 %n, <MAX_ARRAYS>
  br i1 %room, label %put, label %full
put:
  %ranges = getelementptr i8, ptr %frame, i64 <F.ranges>
  %at = shl i64 %n, 4
  %at.high = or i64 %at, 8
  call void @set(ptr %ranges, i64 %at, i64 %low)
  call void @set(ptr %ranges, i64 %at.high, i64 %high)
  %more = add i64 %n, 1
  call void @set(ptr %frame, i64 <F.arrays>, i64 %more)
  ret i1 true
full:
  ret i1 false
}
; Whether no two arrays share bytes.
define internal i1 @apart(ptr %frame) {
entry:
  %n = call i64 @word(ptr %frame, i64 <F.arrays>)
  %end = shl i64 %n, 4
  %ranges = getelementptr i8, ptr %frame, i64 <F.ranges>
  br label %first
first:
  %i = phi i64 [ 0, %entry ], [ %i.next, %done ]
  %i.more = icmp ult i64 %i, %end
  br i1 %i.more, label %start, label %yes
start:
  %i.high = or i64 %i, 8
  %low = call i64 @word(ptr %ranges, i64 %i)
  %high = call i64 @word(ptr %ranges, i64 %i.high)
  %i.next = add i64 %i, 16
  br label %second
second:
  %j = phi i64 [ %i.next, %start ], [ %j.next, %clear ]
  %j.more = icmp ult i64 %j, %end
  br i1 %j.more, label %look, label %done
look:
  %j.high = or i64 %j, 8
  %other.low = call i64 @word(ptr %ranges, i64 %j)
  %other.high = call i64 @word(ptr %ranges, i64 %j.high)
  %before = icmp sge i64 %other.low, %high
  %after = icmp sge i64 %low, %other.high
  %free = or i1 %before, %after
  br i1 %free, label %clear, label %no
clear:
  %j.next = add i64 %j, 16
  br label %second
done:
  br label %first
yes:
  ret i1 true
no:
  ret i1 false
}
; An array of ours: the number that it is specialised on, its first and last bytes, and its description.
define internal i1 @array(ptr %frame, ptr %argument, ptr %object) {
entry:
  %name = call ptr @thing(i64 <W.header>)
  %header = call ptr @PyObject_GetAttr(ptr %object, ptr %name)
  %none = icmp eq ptr %header, null
  br i1 %none, label %failed, label %has
has:
  %words = call ptr @PyBytes_AsString(ptr %header)
  %odd = icmp eq ptr %words, null
  br i1 %odd, label %release, label %read
read:
  %id = call i64 @word(ptr %words, i64 0)
  call void @note(ptr %frame, i64 %id)
  %low = call i64 @word(ptr %words, i64 8)
  %high = call i64 @word(ptr %words, i64 16)
  %room = call i1 @range(ptr %frame, i64 %low, i64 %high)
  %bytes = call i64 @word(ptr %words, i64 24)
  %wanted = call i64 @word(ptr %argument, i64 8)
  %any = icmp eq i64 %wanted, 0
  %equal = icmp eq i64 %bytes, %wanted
  %fits = or i1 %any, %equal
  %good = and i1 %room, %fits
  br i1 %good, label %take, label %release
take:
  %keyed.word = call i64 @word(ptr %argument, i64 16)
  %keyed = icmp ne i64 %keyed.word, 0
  %aligned = icmp eq i64 %keyed.word, <WITH_ALIGNMENT>
  br label %head
head:
  %k = phi i64 [ 0, %take ], [ %next, %step ]
  %more = icmp ult i64 %k, %bytes
  br i1 %more, label %body, label %taken
body:
  %at = add i64 %k, 32
  %w = call i64 @word(ptr %words, i64 %at)
  call void @emit(ptr %frame, i64 %w)
  br i1 %keyed, label %remember, label %step
remember:
  %is.address = icmp eq i64 %k, 0
  %cut = and i1 %is.address, %aligned
  %alignment = and i64 %w, 63
  %noted = select i1 %cut, i64 %alignment, i64 %w
  call void @note(ptr %frame, i64 %noted)
  br label %step
step:
  %next = add i64 %k, 8
  br label %head
taken:
  %n = call i64 @word(ptr %frame, i64 <F.ours>)
  %n.1 = add i64 %n, 1
  call void @set(ptr %frame, i64 <F.ours>, i64 %n.1)
  call void @Py_DecRef(ptr %header)
  ret i1 true
release:
  call void @Py_DecRef(ptr %header)
  br label %failed
failed:
  call void @PyErr_Clear()
  ret i1 false
}
; A tensor of PyTorch on a GPU, as DLPack describes it. What ours would be specialised on follows from its type, its
; shape and strides, and how its address is aligned.
define internal i1 @tensor(ptr %frame, ptr %argument, ptr %object) {
entry:
  %fits.word = call i64 @word(ptr %argument, i64 24)
  %may = icmp ne i64 %fits.word, 0
  br i1 %may, label %ask, label %no
ask:
  %function = call ptr @thing(i64 <W.describe_tensor>)
  %t = getelementptr i8, ptr %frame, i64 <F.tensor>
  %code = call i32 %function(ptr %object, ptr %t)
  %said = icmp eq i32 %code, 0
  br i1 %said, label %look, label %failed
look:
  %device = call i64 @word(ptr %t, i64 8)
  %kind = and i64 %device, 4294967295
  %is.cuda = icmp eq i64 %kind, <CUDA>
  %type = call i64 @word(ptr %t, i64 16)
  %rank = and i64 %type, 4294967295
  %lanes = lshr i64 %type, 48
  %one = icmp eq i64 %lanes, 1
  %bits.0 = lshr i64 %type, 40
  %bits = and i64 %bits.0, 255
  %part = and i64 %bits, 7
  %whole = icmp eq i64 %part, 0
  %size = lshr i64 %bits, 3
  %both = shl i64 %rank, 4
  %bytes = add i64 %both, 8
  %wanted = call i64 @word(ptr %argument, i64 8)
  %any = icmp eq i64 %wanted, 0
  %few = icmp ule i64 %rank, <MAX_DIMENSIONS>
  %any.rank = and i1 %any, %few
  %equal = icmp eq i64 %bytes, %wanted
  %fits = or i1 %any.rank, %equal
  %strides.word = call i64 @word(ptr %t, i64 32)
  %strided = icmp ne i64 %strides.word, 0
  %ok.0 = and i1 %is.cuda, %one
  %ok.1 = and i1 %ok.0, %whole
  %ok.2 = and i1 %ok.1, %fits
  %ok = and i1 %ok.2, %strided
  br i1 %ok, label %take, label %no
take:
  %data = call i64 @word(ptr %t, i64 0)
  %offset = call i64 @word(ptr %t, i64 40)
  %address = add i64 %data, %offset
  %shape.word = call i64 @word(ptr %t, i64 24)
  %shape = inttoptr i64 %shape.word to ptr
  %strides = inttoptr i64 %strides.word to ptr
  %ordinal = lshr i64 %device, 32
  call void @set(ptr %frame, i64 <F.ordinal>, i64 %ordinal)
  ; Negative, as no number of ours is.
  %type.high = lshr i64 %type, 32
  %place = shl i64 %ordinal, 32
  %dimensions = shl i64 %rank, 56
  %where = or i64 %place, %dimensions
  %what = or i64 %where, %type.high
  %mark = xor i64 %what, -1
  call void @note(ptr %frame, i64 %mark)
  %keyed.word = call i64 @word(ptr %argument, i64 16)
  %keyed = icmp eq i64 %keyed.word, <WITH_ADDRESS>
  %alignment = and i64 %address, 63
  %seen = select i1 %keyed, i64 %address, i64 %alignment
  call void @note(ptr %frame, i64 %seen)
  call void @emit(ptr %frame, i64 %address)
  %end = shl i64 %rank, 3
  br label %shape.head
shape.head:
  %i = phi i64 [ 0, %take ], [ %i.next, %shape.body ]
  %i.more = icmp ult i64 %i, %end
  br i1 %i.more, label %shape.body, label %strides.head
shape.body:
  %n = call i64 @word(ptr %shape, i64 %i)
  call void @note(ptr %frame, i64 %n)
  call void @emit(ptr %frame, i64 %n)
  %i.next = add i64 %i, 8
  br label %shape.head
strides.head:
  %j = phi i64 [ 0, %shape.head ], [ %j.next, %strides.body ]
  %low = phi i64 [ %address, %shape.head ], [ %low.next, %strides.body ]
  %high = phi i64 [ %address, %shape.head ], [ %high.next, %strides.body ]
  %empty = phi i1 [ false, %shape.head ], [ %empty.next, %strides.body ]
  %j.more = icmp ult i64 %j, %end
  br i1 %j.more, label %strides.body, label %ends
strides.body:
  %count = call i64 @word(ptr %shape, i64 %j)
  %elements = call i64 @word(ptr %strides, i64 %j)
  %stride = mul i64 %elements, %size
  call void @note(ptr %frame, i64 %stride)
  call void @emit(ptr %frame, i64 %stride)
  %last = sub i64 %count, 1
  %reach = mul i64 %stride, %last
  %down = call i64 @llvm.smin.i64(i64 %reach, i64 0)
  %up = call i64 @llvm.smax.i64(i64 %reach, i64 0)
  %low.next = add i64 %low, %down
  %high.next = add i64 %high, %up
  %zero = icmp eq i64 %count, 0
  %empty.next = or i1 %empty, %zero
  %j.next = add i64 %j, 8
  br label %strides.head
ends:
  %after = add i64 %high, %size
  %end.of = select i1 %empty, i64 %low, i64 %after
  %room = call i1 @range(ptr %frame, i64 %low, i64 %end.of)
  %m = call i64 @word(ptr %frame, i64 <F.foreign>)
  %m.1 = add i64 %m, 1
  call void @set(ptr %frame, i64 <F.foreign>, i64 %m.1)
  ret i1 %room
failed:
  call void @PyErr_Clear()
  br label %no
no:
  ret i1 false
}
define internal i1 @argument(ptr %frame, ptr %argument, ptr %object) {
  %kind = call i64 @word(ptr %argument, i64 0)
  %is.array = icmp eq i64 %kind, <ARRAY>
  br i1 %is.array, label %arrays, label %numbers
arrays:
  %ours = call i1 @is_a(ptr %object, i64 <W.array>)
  br i1 %ours, label %own, label %others
own:
  %a = call i1 @array(ptr %frame, ptr %argument, ptr %object)
  ret i1 %a
others:
  %plain = call i1 @is_a(ptr %object, i64 <W.tensor>)
  %parameter = call i1 @is_a(ptr %object, i64 <W.parameter>)
  %known = or i1 %plain, %parameter
  br i1 %known, label %foreign, label %no
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
