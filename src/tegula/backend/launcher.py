"""Launches of kernels on GPUs in machine code: LLVM IR of a function that Python calls as a built-in function.

`launch(dim, block_dim, inputs, outputs, mode, stream)` handles the arguments like `runtime.fast_path`, writes the
kernel's argument block and the launch configuration, and calls the driver. Python code (runtime/cuda/native.py) caches
launches by a key of words: the modes, the dimensions, and the specialisation of each argument. The function returns

    True        the kernel was launched
    a tuple     the kernel was launched, and wrote other libraries' arrays at these positions
    bytes       the kernel was not launched; launches with this key repeat, so that they should be cached
    False       the kernel was not launched, for any other reason

`describe(*arguments)` returns the key of `tg.launch_key`.

All uncommon cases and errors are left to Python code. The function depends on CPython's stable interface and on the
offset of an object's type. Sizes and offsets are in bytes."""

from __future__ import annotations

from tegula.backend.launcher_arguments import ARGUMENTS, BASICS

WORD = 8
TILED, DESCRIBE = 1, 2
"""Bits of `mode`: the kernel is launched by blocks; only the key is returned."""

# The globals: process-wide addresses, which Python code writes.
FUNCTIONS = {
    "PyObject_GetAttr": "ptr (ptr, ptr)",
    "PyObject_CallOneArg": "ptr (ptr, ptr)",
    "PyBytes_AsString": "ptr (ptr)",
    "PyBytes_FromStringAndSize": "ptr (ptr, i64)",
    "PyByteArray_AsString": "ptr (ptr)",
    "PyLong_AsLongLongAndOverflow": "i64 (ptr, ptr)",
    "PyFloat_AsDouble": "double (ptr)",
    "PyList_Size": "i64 (ptr)",
    "PyList_GetItem": "ptr (ptr, i64)",
    "PyTuple_Size": "i64 (ptr)",
    "PyTuple_GetItem": "ptr (ptr, i64)",
    "PyDict_GetItem": "ptr (ptr, ptr)",
    "PyErr_Clear": "void ()",
    "PyEval_SaveThread": "ptr ()",
    "PyEval_RestoreThread": "void (ptr)",
    "Py_IncRef": "void (ptr)",
    "Py_DecRef": "void (ptr)",
}
"""Functions of CPython, with their LLVM types."""
OBJECTS = (
    *("True", "False", "None", "int", "float", "list", "tuple", "array", "stream"),
    *("header", "streams", "context", "handle", "owned", "chosen"),
)
"""Python objects: constants, types, names of attributes, and the thread-local objects with the streams that a thread
has set."""
FOREIGN = ("tensor", "parameter", "describe_tensor", "current_stream")
"""PyTorch's types and its functions of DLPack's exchange interface; 0 where PyTorch is absent."""
STATE = ("modes", "switches")
"""The addresses of the modes' values, and of two words: whether a thread has ever set a stream, and the number of
recordings."""
WORLD = {name: WORD * k for k, name in enumerate((*FUNCTIONS, *OBJECTS, *FOREIGN, *STATE))}

# The table of a kernel: the kinds of its arguments, the cached launches, and the most recent misses.
ARRAY, INTEGER, BOOLEAN, SINGLE, DOUBLE = range(5)
"""Kinds of arguments. A table has for each argument its kind, its bytes, and up to four more words. For arrays: the
part of the description that keys contain, and whether arrays of other libraries fit. For integers: the least value, the
greatest value, and the mask of the bits that are kept. The word at `KEYED_AT` of an integer or bool: whether keys
contain its value."""
KEYED_AT = 5 * WORD
NUMBER_ALONE, WITH_ADDRESS, WITH_ALIGNMENT = range(3)
"""The part of an array's description in a key: only the id of its specialisation; the whole description; or the
description with only the low bits of the address, as for tensors."""
MAX_ARGUMENTS, ARGUMENT_WORDS = 32, 6
ARGUMENTS_AT = WORD
SLOTS_AT = ARGUMENTS_AT + MAX_ARGUMENTS * ARGUMENT_WORDS * WORD
SLOT_BITS, SLOT_BYTES, WAYS = 8, 2 * WORD, 4
"""A slot holds an entry (a tuple, whose first item holds the entry's words) and the hash of the entry's key. The first
bits of the hash are the slot at which the search starts; `WAYS` slots are searched."""
MISSES_AT = SLOTS_AT + (1 << SLOT_BITS) * SLOT_BYTES
TABLE_BYTES = MISSES_AT + (1 << SLOT_BITS) * 2 * WORD
"""The hashes of the most recent misses, two for each value of a hash's first bits."""

# An entry: a cached launch.
_ENTRY_WORDS = (
    *("words", "captures", "device", "function", "tail", "fixups"),
    *("append", "name", "writes", "context", "number"),
)
ENTRY = {name: WORD * k for k, name in enumerate((*_ENTRY_WORDS, "configuration"))}
CONFIGURATION_BYTES, STREAM_AT, FIRST_ATTRIBUTE_AT, ATTRIBUTES_AT, ATTRIBUTE_BYTES = 64, 32, 40, 48, 72
KEY_AT = ENTRY["configuration"] + CONFIGURATION_BYTES
"""The key, then the captures (three objects each), the fix-ups (three words each), and the bytes that follow the
arguments. A fix-up has the offset of a tensor map, the offset of the array's address, and the address for which the map
was encoded; a launch with another address replaces the map's address."""
DEVICE = {
    name: WORD * k for k, name in enumerate(("usable", "alone", "context", "launch", "current", "replace"))
}
"""The variables of a device: whether it can be used, whether it is the only device, its context, and the addresses of
the driver's functions that launch, that return a thread's context, and that replace the address of a tensor map (0 for
a missing function)."""

# The frame: the working memory of a call.
MAX_WORDS, MAX_ARRAYS, MAX_BYTES = 160, 10, 4096
"""Limits of a call: the words of a key, the number of arrays, and the bytes that the kernel reads."""
MAP_ALIGNMENT = 128
"""The largest alignment in bytes that the driver requires of a tensor map."""
FRAME = {
    "count": 0,
    "bytes": 8,
    "arrays": 16,
    "ours": 24,
    "foreign": 32,
    "ordinal": 40,
    "stream": 48,
    "own": 56,
    "tensor": 64,
    "ranges": 128,
}
FRAME["key"] = FRAME["ranges"] + 2 * WORD * MAX_ARRAYS
FRAME["configuration"] = FRAME["key"] + WORD * MAX_WORDS
FRAME["data"] = -(-(FRAME["configuration"] + CONFIGURATION_BYTES) // MAP_ALIGNMENT) * MAP_ALIGNMENT
FRAME_BYTES = FRAME["data"] + MAX_BYTES
HASH = 11400714819323198485
MAX_DIMENSIONS, NOTHING = 4, -(1 << 63)
"""The maximum number of dimensions of an array and of a launch; the word in a key for an absent argument."""
CUDA, LEGACY = 2, 1
"""DLPack's device type of GPU memory, and the driver's handle of the default stream."""

_TEXT = """
; The launch ----------------------------------------------------------------------------------------------------------

; The key begins with the modes, the way of launching, the size of blocks (-1: the kernel's own) and the dimensions.
define internal i1 @dimensions(ptr %frame, ptr %dim, ptr %block, i64 %mode) {
entry:
  %value.p = alloca i64
  %modes = call ptr @thing(i64 <W.modes>)
  %code = call i64 @word(ptr %modes, i64 0)
  %default = call i64 @word(ptr %modes, i64 8)
  call void @note(ptr %frame, i64 %code)
  call void @note(ptr %frame, i64 %default)
  %tiled = and i64 %mode, <TILED>
  call void @note(ptr %frame, i64 %tiled)
  %none = call ptr @thing(i64 <W.None>)
  %own = icmp eq ptr %block, %none
  br i1 %own, label %unsaid, label %said
unsaid:
  store i64 -1, ptr %value.p
  br label %size
said:
  %is.size = call i1 @integer(ptr %block, ptr %value.p)
  br i1 %is.size, label %checked, label %no
checked:
  %given = load i64, ptr %value.p
  %positive = icmp sgt i64 %given, 0
  br i1 %positive, label %size, label %no
size:
  %threads = load i64, ptr %value.p
  call void @note(ptr %frame, i64 %threads)
  %is.one = call i1 @integer(ptr %dim, ptr %value.p)
  br i1 %is.one, label %one, label %several
one:
  %single = load i64, ptr %value.p
  call void @note(ptr %frame, i64 1)
  call void @note(ptr %frame, i64 %single)
  ret i1 true
several:
  %n = call i64 @length(ptr %dim)
  call void @note(ptr %frame, i64 %n)
  %few = icmp ule i64 %n, <MAX_DIMENSIONS>
  br i1 %few, label %head, label %no
head:
  %k = phi i64 [ 0, %several ], [ %next, %put ]
  %more = icmp ult i64 %k, %n
  br i1 %more, label %body, label %yes
body:
  %object = call ptr @item(ptr %dim, i64 %k)
  %whole = call i1 @integer(ptr %object, ptr %value.p)
  br i1 %whole, label %put, label %no
put:
  %extent = load i64, ptr %value.p
  call void @note(ptr %frame, i64 %extent)
  %next = add i64 %k, 1
  br label %head
yes:
  ret i1 true
no:
  ret i1 false
}
define internal i1 @arguments(ptr %frame, ptr %table, ptr %inputs, ptr %outputs) {
entry:
  %ins = call i64 @length(ptr %inputs)
  %outs = call i64 @length(ptr %outputs)
  %count = call i64 @word(ptr %table, i64 0)
  %has.ins = icmp sge i64 %ins, 0
  %has.outs = icmp sge i64 %outs, 0
  %sum = add i64 %ins, %outs
  %right = icmp eq i64 %sum, %count
  %ok.0 = and i1 %has.ins, %has.outs
  %ok = and i1 %ok.0, %right
  br i1 %ok, label %head, label %no
head:
  %k = phi i64 [ 0, %entry ], [ %next, %step ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %body, label %all
body:
  %early = icmp ult i64 %k, %ins
  br i1 %early, label %input, label %output
input:
  %x = call ptr @item(ptr %inputs, i64 %k)
  br label %have
output:
  %j = sub i64 %k, %ins
  %y = call ptr @item(ptr %outputs, i64 %j)
  br label %have
have:
  %object = phi ptr [ %x, %input ], [ %y, %output ]
  %words = mul i64 %k, <ARGUMENT_BYTES>
  %at = add i64 %words, <ARGUMENTS_AT>
  %argument = getelementptr i8, ptr %table, i64 %at
  %good = call i1 @argument(ptr %frame, ptr %argument, ptr %object)
  br i1 %good, label %step, label %no
step:
  %next = add i64 %k, 1
  br label %head
all:
  ; Kernels without arrays run where their thread is.
  %arrays = call i64 @word(ptr %frame, i64 <F.arrays>)
  %some = icmp ne i64 %arrays, 0
  %noted = call i64 @word(ptr %frame, i64 <F.count>)
  %short = icmp ule i64 %noted, <MAX_WORDS>
  %fine = and i1 %some, %short
  br i1 %fine, label %last, label %no
last:
  %apart = call i1 @apart(ptr %frame)
  ret i1 %apart
no:
  ret i1 false
}
define internal i64 @hash(ptr %frame) {
entry:
  %n = call i64 @word(ptr %frame, i64 <F.count>)
  %end = shl i64 %n, 3
  %key = getelementptr i8, ptr %frame, i64 <F.key>
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %next, %body ]
  %h = phi i64 [ 0, %entry ], [ %h.next, %body ]
  %more = icmp ult i64 %k, %end
  br i1 %more, label %body, label %out
body:
  %w = call i64 @word(ptr %key, i64 %k)
  %mixed = xor i64 %h, %w
  %spread = mul i64 %mixed, <HASH>
  %top = lshr i64 %spread, 32
  %h.next = xor i64 %spread, %top
  %next = add i64 %k, 8
  br label %head
out:
  %final = mul i64 %h, <HASH>
  ret i64 %final
}
; The key as bytes; a constant where there is no memory for them.
define internal ptr @key(ptr %frame, i64 %otherwise) {
  %n = call i64 @word(ptr %frame, i64 <F.count>)
  %bytes = shl i64 %n, 3
  %key = getelementptr i8, ptr %frame, i64 <F.key>
  %made = call ptr @PyBytes_FromStringAndSize(ptr %key, i64 %bytes)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %none, label %some
some:
  ret ptr %made
none:
  call void @PyErr_Clear()
  %constant = call ptr @constant(i64 %otherwise)
  ret ptr %constant
}
; Whether what the kernel was made from besides its source is still the same.
define internal i1 @unchanged(ptr %captures, i64 %count) {
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %next, %step ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %body, label %yes
body:
  %at = mul i64 %k, 24
  %p = getelementptr i8, ptr %captures, i64 %at
  %fetch = load ptr, ptr %p
  %name.p = getelementptr i8, ptr %p, i64 8
  %name = load ptr, ptr %name.p
  %value.p = getelementptr i8, ptr %p, i64 16
  %value = load ptr, ptr %value.p
  %found = call ptr @PyObject_CallOneArg(ptr %fetch, ptr %name)
  %raised = icmp eq ptr %found, null
  br i1 %raised, label %failed, label %compare
compare:
  %same = icmp eq ptr %found, %value
  call void @Py_DecRef(ptr %found)
  br i1 %same, label %step, label %no
step:
  %next = add i64 %k, 1
  br label %head
failed:
  call void @PyErr_Clear()
  br label %no
yes:
  ret i1 true
no:
  ret i1 false
}
; The handle of a stream of ours on the device of a launch; 0 for what is none. It is noted whether we made it.
define internal i64 @handle_of(ptr %frame, ptr %known, ptr %stream) {
entry:
  %handle.p = alloca i64
  %right = call i1 @is_a(ptr %stream, i64 <W.stream>)
  br i1 %right, label %place, label %no
place:
  %context.name = call ptr @thing(i64 <W.context>)
  %context = call ptr @PyObject_GetAttr(ptr %stream, ptr %context.name)
  %nowhere = icmp eq ptr %context, null
  br i1 %nowhere, label %failed, label %compare
compare:
  call void @Py_DecRef(ptr %context)
  %wanted.word = call i64 @word(ptr %known, i64 <E.context>)
  %wanted = inttoptr i64 %wanted.word to ptr
  %same = icmp eq ptr %context, %wanted
  br i1 %same, label %ask, label %no
ask:
  %handle.name = call ptr @thing(i64 <W.handle>)
  %object = call ptr @PyObject_GetAttr(ptr %stream, ptr %handle.name)
  %none = icmp eq ptr %object, null
  br i1 %none, label %failed, label %read
read:
  %is.int = call i1 @integer(ptr %object, ptr %handle.p)
  call void @Py_DecRef(ptr %object)
  %handle = load i64, ptr %handle.p
  %result = select i1 %is.int, i64 %handle, i64 0
  %owned.name = call ptr @thing(i64 <W.owned>)
  %owned = call ptr @PyObject_GetAttr(ptr %stream, ptr %owned.name)
  %unknown = icmp eq ptr %owned, null
  br i1 %unknown, label %failed, label %tell
tell:
  call void @Py_DecRef(ptr %owned)
  %true = call ptr @thing(i64 <W.True>)
  %is.own = icmp eq ptr %owned, %true
  %own = zext i1 %is.own to i64
  call void @set(ptr %frame, i64 <F.own>, i64 %own)
  ret i64 %result
failed:
  call void @PyErr_Clear()
  br label %no
no:
  ret i64 0
}
; The handle of the stream that this thread has chosen for the device; that of the default stream where it has chosen
; none; 0 where that cannot be found out.
define internal i64 @chosen(ptr %frame, ptr %known) {
entry:
  %switches = call ptr @thing(i64 <W.switches>)
  %flag = call i64 @word(ptr %switches, i64 0)
  %never = icmp eq i64 %flag, 0
  br i1 %never, label %default, label %ask
ask:
  %local = call ptr @thing(i64 <W.chosen>)
  %name = call ptr @thing(i64 <W.streams>)
  %streams = call ptr @PyObject_GetAttr(ptr %local, ptr %name)
  %none = icmp eq ptr %streams, null
  br i1 %none, label %failed, label %look
look:
  %number.word = call i64 @word(ptr %known, i64 <E.number>)
  %number = inttoptr i64 %number.word to ptr
  %stream = call ptr @PyDict_GetItem(ptr %streams, ptr %number)
  %absent = icmp eq ptr %stream, null
  br i1 %absent, label %nothing, label %found
nothing:
  call void @Py_DecRef(ptr %streams)
  br label %default
found:
  %handle = call i64 @handle_of(ptr %frame, ptr %known, ptr %stream)
  call void @Py_DecRef(ptr %streams)
  ret i64 %handle
default:
  ret i64 <LEGACY>
failed:
  call void @PyErr_Clear()
  ret i64 0
}
; The handle of the stream to launch in; 0 where Python code has to say it. It is the one that was given, else the one
; that the thread has chosen, else PyTorch's where tensors are passed: Python code orders arrays of ours with that.
define internal i64 @stream(ptr %frame, ptr %known) {
entry:
  %stream.p = alloca i64
  %switches = call ptr @thing(i64 <W.switches>)
  %recordings = call i64 @word(ptr %switches, i64 8)
  %free = icmp eq i64 %recordings, 0
  br i1 %free, label %first, label %no
first:
  %given.word = call i64 @word(ptr %frame, i64 <F.stream>)
  %given = inttoptr i64 %given.word to ptr
  %none = call ptr @thing(i64 <W.None>)
  %unsaid = icmp eq ptr %given, %none
  br i1 %unsaid, label %second, label %said
said:
  %mine = call i64 @handle_of(ptr %frame, ptr %known, ptr %given)
  ret i64 %mine
second:
  %chosen = call i64 @chosen(ptr %frame, ptr %known)
  %plain = icmp eq i64 %chosen, <LEGACY>
  %foreign = call i64 @word(ptr %frame, i64 <F.foreign>)
  %tensors = icmp ne i64 %foreign, 0
  %third = and i1 %plain, %tensors
  br i1 %third, label %ask, label %decided
decided:
  ret i64 %chosen
ask:
  %function = call ptr @thing(i64 <W.current_stream>)
  %ordinal = call i64 @word(ptr %frame, i64 <F.ordinal>)
  %device = trunc i64 %ordinal to i32
  %code = call i32 %function(i32 <CUDA>, i32 %device, ptr %stream.p)
  %told = icmp eq i32 %code, 0
  br i1 %told, label %found, label %failed
found:
  %stream = load i64, ptr %stream.p
  %default = icmp ule i64 %stream, <LEGACY>
  br i1 %default, label %legacy, label %other
legacy:
  ret i64 <LEGACY>
other:
  %ours = call i64 @word(ptr %frame, i64 <F.ours>)
  %alone = icmp eq i64 %ours, 0
  %at = select i1 %alone, i64 %stream, i64 0
  ret i64 %at
failed:
  call void @PyErr_Clear()
  br label %no
no:
  ret i64 0
}
; Whether the device can be used as things are.
define internal i1 @ready(ptr %device) {
entry:
  %context.p = alloca ptr
  %usable.word = call i64 @word(ptr %device, i64 <D.usable>)
  %usable = icmp ne i64 %usable.word, 0
  br i1 %usable, label %look, label %no
look:
  %alone.word = call i64 @word(ptr %device, i64 <D.alone>)
  %alone = icmp ne i64 %alone.word, 0
  br i1 %alone, label %yes, label %ask
ask:
  %function.word = call i64 @word(ptr %device, i64 <D.current>)
  %function = inttoptr i64 %function.word to ptr
  store ptr null, ptr %context.p
  %code = call i32 %function(ptr %context.p)
  %found = load ptr, ptr %context.p
  %found.word = ptrtoint ptr %found to i64
  %wanted = call i64 @word(ptr %device, i64 <D.context>)
  %same = icmp eq i64 %found.word, %wanted
  ret i1 %same
yes:
  ret i1 true
no:
  ret i1 false
}
; Launch what an entry describes; whether the driver did it.
define internal i1 @submit(ptr %frame, ptr %known, ptr %fixups) {
entry:
  %parameters = alloca ptr
  %device.word = call i64 @word(ptr %known, i64 <E.device>)
  %device = inttoptr i64 %device.word to ptr
  %ready = call i1 @ready(ptr %device)
  br i1 %ready, label %order, label %no
order:
  %stream = call i64 @stream(ptr %frame, ptr %known)
  %ordered = icmp ne i64 %stream, 0
  br i1 %ordered, label %fill, label %no
fill:
  %bytes = call i64 @word(ptr %frame, i64 <F.bytes>)
  %data = getelementptr i8, ptr %frame, i64 <F.data>
  %end = getelementptr i8, ptr %data, i64 %bytes
  %tail.bytes = call i64 @word(ptr %known, i64 <E.tail>)
  %fixups.count = call i64 @word(ptr %known, i64 <E.fixups>)
  %fixups.bytes = mul i64 %fixups.count, 24
  %tail = getelementptr i8, ptr %fixups, i64 %fixups.bytes
  call void @copy(ptr %end, ptr %tail, i64 %tail.bytes)
  br label %maps
maps:
  %m = phi i64 [ 0, %fill ], [ %m.next, %placed ]
  %m.more = icmp ult i64 %m, %fixups.bytes
  br i1 %m.more, label %look, label %configure
look:
  %fixup = getelementptr i8, ptr %fixups, i64 %m
  %map.at = call i64 @word(ptr %fixup, i64 0)
  %address.at = call i64 @word(ptr %fixup, i64 8)
  %was = call i64 @word(ptr %fixup, i64 16)
  %is = call i64 @word(ptr %data, i64 %address.at)
  %stayed = icmp eq i64 %is, %was
  br i1 %stayed, label %placed, label %move
move:
  %map = getelementptr i8, ptr %data, i64 %map.at
  %replace.word = call i64 @word(ptr %device, i64 <D.replace>)
  %replace = inttoptr i64 %replace.word to ptr
  %replaced.code = call i32 %replace(ptr %map, i64 %is)
  %replaced = icmp eq i32 %replaced.code, 0
  br i1 %replaced, label %placed, label %no
placed:
  %m.next = add i64 %m, 24
  br label %maps
configure:
  %template = getelementptr i8, ptr %known, i64 <E.configuration>
  %configuration = getelementptr i8, ptr %frame, i64 <F.configuration>
  call void @copy(ptr %configuration, ptr %template, i64 <CONFIGURATION_BYTES>)
  call void @set(ptr %configuration, i64 <STREAM_AT>, i64 %stream)
  ; Another library's stream may be recorded: launches there do not start early, which is the first attribute.
  %default = icmp eq i64 %stream, <LEGACY>
  %own = call i64 @word(ptr %frame, i64 <F.own>)
  %made.here = icmp ne i64 %own, 0
  %known.stream = or i1 %default, %made.here
  %attributes = call i64 @word(ptr %configuration, i64 <ATTRIBUTES_AT>)
  %none = icmp eq i64 %attributes, 0
  %as.it.is = or i1 %known.stream, %none
  %fewer = sub i64 %attributes, 1
  %number = select i1 %as.it.is, i64 %attributes, i64 %fewer
  call void @set(ptr %configuration, i64 <ATTRIBUTES_AT>, i64 %number)
  %first = call i64 @word(ptr %configuration, i64 <FIRST_ATTRIBUTE_AT>)
  %second = add i64 %first, <ATTRIBUTE_BYTES>
  %from = select i1 %as.it.is, i64 %first, i64 %second
  call void @set(ptr %configuration, i64 <FIRST_ATTRIBUTE_AT>, i64 %from)
  store ptr %data, ptr %parameters
  %function = call i64 @word(ptr %known, i64 <E.function>)
  %launch.word = call i64 @word(ptr %device, i64 <D.launch>)
  %launch = inttoptr i64 %launch.word to ptr
  %thread = call ptr @PyEval_SaveThread()
  %code = call i32 %launch(ptr %configuration, i64 %function, ptr %parameters, ptr null)
  call void @PyEval_RestoreThread(ptr %thread)
  %done = icmp eq i32 %code, 0
  br i1 %done, label %remember, label %no
remember:
  %append.word = call i64 @word(ptr %known, i64 <E.append>)
  %append = inttoptr i64 %append.word to ptr
  %name.word = call i64 @word(ptr %known, i64 <E.name>)
  %name = inttoptr i64 %name.word to ptr
  %appended = call ptr @PyObject_CallOneArg(ptr %append, ptr %name)
  %lost = icmp eq ptr %appended, null
  br i1 %lost, label %forgotten, label %noted
noted:
  call void @Py_DecRef(ptr %appended)
  ret i1 true
forgotten:
  call void @PyErr_Clear()
  ret i1 true
no:
  ret i1 false
}
; What a launch returns after it was looked for.
define internal ptr @found(ptr %frame, ptr %known) {
entry:
  %words.object = call ptr @PyTuple_GetItem(ptr %known, i64 0)
  %entry.p = call ptr @PyBytes_AsString(ptr %words.object)
  %n = call i64 @word(ptr %frame, i64 <F.count>)
  %its = call i64 @word(ptr %entry.p, i64 <E.words>)
  %as.long = icmp eq i64 %n, %its
  br i1 %as.long, label %compare, label %other
compare:
  %bytes = shl i64 %n, 3
  %mine = getelementptr i8, ptr %frame, i64 <F.key>
  %theirs = getelementptr i8, ptr %entry.p, i64 <KEY_AT>
  %same = call i1 @equal(ptr %mine, ptr %theirs, i64 %bytes)
  br i1 %same, label %check, label %other
check:
  %captures = getelementptr i8, ptr %theirs, i64 %bytes
  %count = call i64 @word(ptr %entry.p, i64 <E.captures>)
  %unchanged = call i1 @unchanged(ptr %captures, i64 %count)
  br i1 %unchanged, label %launch, label %other
launch:
  %captures.bytes = mul i64 %count, 24
  %fixups = getelementptr i8, ptr %captures, i64 %captures.bytes
  %done = call i1 @submit(ptr %frame, ptr %entry.p, ptr %fixups)
  br i1 %done, label %launched, label %no
launched:
  %foreign = call i64 @word(ptr %frame, i64 <F.foreign>)
  %plain = icmp eq i64 %foreign, 0
  br i1 %plain, label %true, label %written
written:
  %writes.word = call i64 @word(ptr %entry.p, i64 <E.writes>)
  %writes = inttoptr i64 %writes.word to ptr
  %reads.only = icmp eq ptr %writes, null
  br i1 %reads.only, label %true, label %tell
tell:
  call void @Py_IncRef(ptr %writes)
  ret ptr %writes
true:
  %yes = call ptr @constant(i64 <W.True>)
  ret ptr %yes
other:
  ret ptr null
no:
  %false = call ptr @constant(i64 <W.False>)
  ret ptr %false
}
@any = internal constant [<ARGUMENT_WORDS> x i64] [i64 <ARRAY>, i64 0, i64 <WITH_ALIGNMENT>, i64 1, i64 0, i64 0]

define internal void @clear(ptr %frame) {
  call void @set(ptr %frame, i64 <F.count>, i64 0)
  call void @set(ptr %frame, i64 <F.bytes>, i64 0)
  call void @set(ptr %frame, i64 <F.arrays>, i64 0)
  call void @set(ptr %frame, i64 <F.ours>, i64 0)
  call void @set(ptr %frame, i64 <F.foreign>, i64 0)
  call void @set(ptr %frame, i64 <F.own>, i64 0)
  ret void
}
; What launches with these arrays and Nones depend on besides addresses, as bytes; None for others.
define ptr @describe(ptr %self, ptr %given, i64 %count) {
entry:
  %frame = alloca [<FRAME_BYTES> x i8], align <MAP_ALIGNMENT>
  call void @clear(ptr %frame)
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %next, %step ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %body, label %all
body:
  %p = getelementptr ptr, ptr %given, i64 %k
  %object = load ptr, ptr %p
  %none = call ptr @thing(i64 <W.None>)
  %absent = icmp eq ptr %object, %none
  br i1 %absent, label %nothing, label %something
nothing:
  ; No number of ours, and no mark of a tensor.
  call void @note(ptr %frame, i64 <NOTHING>)
  br label %step
something:
  %good = call i1 @argument(ptr %frame, ptr @any, ptr %object)
  br i1 %good, label %step, label %no
step:
  %next = add i64 %k, 1
  br label %head
all:
  %noted = call i64 @word(ptr %frame, i64 <F.count>)
  %short = icmp ule i64 %noted, <MAX_WORDS>
  br i1 %short, label %tell, label %no
tell:
  %key = call ptr @key(ptr %frame, i64 <W.None>)
  ret ptr %key
no:
  %unknown = call ptr @constant(i64 <W.None>)
  ret ptr %unknown
}
define ptr @launch(ptr %self, ptr %given, i64 %count) {
entry:
  %frame = alloca [<FRAME_BYTES> x i8], align <MAP_ALIGNMENT>
  %mode.p = alloca i64
  call void @clear(ptr %frame)
  %six = icmp eq i64 %count, 6
  br i1 %six, label %begin, label %no
begin:
  %stream.p = getelementptr i8, ptr %given, i64 40
  %stream = load i64, ptr %stream.p
  call void @set(ptr %frame, i64 <F.stream>, i64 %stream)
  %table = call ptr @PyByteArray_AsString(ptr %self)
  %dim = load ptr, ptr %given
  %block.p = getelementptr i8, ptr %given, i64 8
  %block = load ptr, ptr %block.p
  %inputs.p = getelementptr i8, ptr %given, i64 16
  %inputs = load ptr, ptr %inputs.p
  %outputs.p = getelementptr i8, ptr %given, i64 24
  %outputs = load ptr, ptr %outputs.p
  %mode.object.p = getelementptr i8, ptr %given, i64 32
  %mode.object = load ptr, ptr %mode.object.p
  %has.mode = call i1 @integer(ptr %mode.object, ptr %mode.p)
  br i1 %has.mode, label %shape, label %no
shape:
  %mode = load i64, ptr %mode.p
  %has.shape = call i1 @dimensions(ptr %frame, ptr %dim, ptr %block, i64 %mode)
  br i1 %has.shape, label %pack, label %no
pack:
  %fits = call i1 @arguments(ptr %frame, ptr %table, ptr %inputs, ptr %outputs)
  br i1 %fits, label %keyed, label %no
keyed:
  %describe.bit = and i64 %mode, <DESCRIBE>
  %describe = icmp ne i64 %describe.bit, 0
  br i1 %describe, label %tell, label %find
find:
  %h = call i64 @hash(ptr %frame)
  %home = lshr i64 %h, <HASH_SHIFT>
  br label %probe
probe:
  %way = phi i64 [ 0, %find ], [ %way.next, %further ]
  %more = icmp ult i64 %way, <WAYS>
  br i1 %more, label %look, label %unknown
look:
  %k.0 = add i64 %home, %way
  %k = and i64 %k.0, <LAST_SLOT>
  %at.0 = mul i64 %k, <SLOT_BYTES>
  %at = add i64 %at.0, <SLOTS_AT>
  %slot = getelementptr i8, ptr %table, i64 %at
  %its = call i64 @word(ptr %slot, i64 8)
  %same = icmp eq i64 %its, %h
  %known = load ptr, ptr %slot
  %filled = icmp ne ptr %known, null
  %may = and i1 %same, %filled
  br i1 %may, label %try, label %further
try:
  call void @Py_IncRef(ptr %known)
  %result = call ptr @found(ptr %frame, ptr %known)
  call void @Py_DecRef(ptr %known)
  %other = icmp eq ptr %result, null
  br i1 %other, label %further, label %out
further:
  %way.next = add i64 %way, 1
  br label %probe
out:
  ret ptr %result
unknown:
  %home.at = shl i64 %home, 4
  %miss.at = add i64 %home.at, <MISSES_AT>
  %older.at = add i64 %miss.at, 8
  %last = call i64 @word(ptr %table, i64 %miss.at)
  %older = call i64 @word(ptr %table, i64 %older.at)
  %was.last = icmp eq i64 %last, %h
  %was.older = icmp eq i64 %older, %h
  %again = or i1 %was.last, %was.older
  br i1 %again, label %tell, label %remember
remember:
  call void @set(ptr %table, i64 %miss.at, i64 %h)
  call void @set(ptr %table, i64 %older.at, i64 %last)
  br label %no
tell:
  %key = call ptr @key(ptr %frame, i64 <W.False>)
  ret ptr %key
no:
  %false = call ptr @constant(i64 <W.False>)
  ret ptr %false
}
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare float @llvm.fabs.f32(float)
declare double @llvm.fabs.f64(double)
"""


def _wrapper(name: str, type: str) -> str:
    """A wrapper of a CPython function, which calls the address in the globals."""
    result, _, rest = type.partition(" ")
    kinds = [kind for kind in rest.strip("()").split(", ") if kind]
    passed = ", ".join(f"{kind} %a{k}" for k, kind in enumerate(kinds))
    value = "" if result == "void" else "%r = "
    ending = "ret void" if result == "void" else f"ret {result} %r"
    return f"""
define internal {result} @{name}({passed}) alwaysinline {{
  %function = call ptr @thing(i64 {WORLD[name]})
  {value}call {result} %function({passed})
  {ending}
}}"""


def launcher_text() -> str:
    """LLVM IR of `begin`, which takes the address of the globals, of `launch` and of `describe`."""
    numbers = {
        **{f"W.{name}": at for name, at in WORLD.items()},
        **{f"F.{name}": at for name, at in FRAME.items()},
        **{f"E.{name}": at for name, at in ENTRY.items()},
        **{f"D.{name}": at for name, at in DEVICE.items()},
        "ARGUMENT_BYTES": ARGUMENT_WORDS * WORD,
        "HASH_SHIFT": 64 - SLOT_BITS,
        "LAST_SLOT": (1 << SLOT_BITS) - 1,
    }
    constants = (
        *("ARRAY", "INTEGER", "SINGLE", "DOUBLE", "MAX_WORDS", "MAX_ARRAYS", "ARGUMENTS_AT", "SLOTS_AT"),
        *("SLOT_BYTES", "WAYS", "MISSES_AT", "TILED", "DESCRIBE", "HASH", "CUDA", "LEGACY"),
        *("CONFIGURATION_BYTES", "STREAM_AT", "FIRST_ATTRIBUTE_AT", "ATTRIBUTES_AT", "ATTRIBUTE_BYTES"),
        *("KEY_AT", "KEYED_AT", "FRAME_BYTES", "MAP_ALIGNMENT", "WITH_ADDRESS", "WITH_ALIGNMENT"),
        *("ARGUMENT_WORDS", "MAX_DIMENSIONS", "NOTHING"),
    )
    numbers |= {name: globals()[name] for name in constants}
    text = BASICS + ARGUMENTS + _TEXT + "".join(_wrapper(name, type) for name, type in FUNCTIONS.items())
    for name, value in numbers.items():
        text = text.replace(f"<{name}>", str(value))
    return text
