"""Launches of kernels on GPUs in machine code: LLVM IR of a function that Python calls as a built-in function.

`launch(dim, block_dim, inputs, outputs, mode, stream)` handles the arguments like `runtime.fast_path`, writes the
kernel's argument block and the launch configuration, and calls the driver. Python code (runtime/cuda/native.py) caches
launches by a key of words: the modes, the dimensions, and the specialisation of each argument. The function returns

    True        the kernel was launched a tuple     the kernel was launched, and wrote other libraries' arrays at these
    positions bytes       the kernel was not launched; launches with this key recur, so that Python code should cache
    the launch False       the kernel was not launched, for any other reason

`describe(*arguments)` returns the key of `tg.launch_key`.

Python code handles all uncommon cases and errors. The function depends on CPython's stable interface and on the offset
of an object's type. Sizes and offsets are in bytes."""

from __future__ import annotations

from tegula.backend.launch_modes import DESCRIBE, TILED
from tegula.backend.launcher_arguments import ARGUMENTS, BASICS

WORD = 8

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
GLOBALS = {name: WORD * k for k, name in enumerate((*FUNCTIONS, *OBJECTS, *FOREIGN, *STATE))}

# The table of a kernel: the kinds of its arguments, the cached launches, and the most recent misses.
ARRAY, INTEGER, BOOLEAN, SINGLE, DOUBLE = range(5)
"""Kinds of arguments. A table has for each argument its kind, its bytes, and up to four more words. For arrays: the
part of the description that keys contain, and whether arrays of other libraries are accepted. For integers: the
minimum, the maximum, and the mask of the bits that are passed. The word at `KEYED_AT` of an integer or bool: whether
keys contain the value."""
KEYED_AT = 5 * WORD
ID_ONLY, WITH_ADDRESS, WITH_ALIGNMENT = range(3)
"""The part of an array's description in a key: only the id of the specialisation; the whole description; or the
description with the low bits of the address only, as for tensors."""
MAX_ARGUMENTS, ARGUMENT_WORDS = 32, 6
ARGUMENTS_AT = WORD
SLOTS_AT = ARGUMENTS_AT + MAX_ARGUMENTS * ARGUMENT_WORDS * WORD
SLOT_BITS, SLOT_BYTES, PROBE_LENGTH = 8, 2 * WORD, 4
"""A slot has an entry (a tuple, whose first item has the entry's words) and the hash of the entry's key. The high bits
of the hash are the index of the first slot to search; `PROBE_LENGTH` slots are searched."""
MISSES_AT = SLOTS_AT + (1 << SLOT_BITS) * SLOT_BYTES
TABLE_BYTES = MISSES_AT + (1 << SLOT_BITS) * 2 * WORD
"""The hashes of the most recent misses, two for each value of a hash's high bits."""

# An entry: a cached launch.
_ENTRY_WORDS = (
    *("words", "captures", "device", "function", "tail", "fixups"),
    *("append", "name", "writes", "context", "number"),
)
ENTRY = {name: WORD * k for k, name in enumerate((*_ENTRY_WORDS, "configuration"))}
CONFIGURATION_BYTES, STREAM_AT, FIRST_ATTRIBUTE_AT, ATTRIBUTES_AT, ATTRIBUTE_BYTES = 64, 32, 40, 48, 72
KEY_AT = ENTRY["configuration"] + CONFIGURATION_BYTES
"""The key, then the captures (three objects each), the fix-ups (three words each), and the bytes that follow the
arguments. A fix-up has the offset of a tensor map, the offset of the array's address, and the address that the encoded
map has; a launch with another address patches the map."""
DEVICE = {
    name: WORD * k for k, name in enumerate(("usable", "alone", "context", "launch", "current", "replace"))
}
"""The variables of a device: whether it can be used, whether it is the only device, its context, and the addresses of
the driver's functions that launch, that return a thread's context, and that replace the address of a tensor map (0 for
a missing function)."""

# The frame: the working memory of a call.
MAX_WORDS, MAX_ARRAYS, MAX_BYTES = 160, 10, 4096
"""Limits of a call: the words of a key, the number of arrays, and the bytes of the argument block."""
MAP_ALIGNMENT = 128
"""The largest alignment in bytes that the driver requires of a tensor map."""
FRAME = {
    "count": 0,
    "bytes": 8,
    "arrays": 16,
    "native": 24,
    "foreign": 32,
    "ordinal": 40,
    "stream": 48,
    "owned": 56,
    "tensor": 64,
    "ranges": 128,
}
FRAME["key"] = FRAME["ranges"] + 2 * WORD * MAX_ARRAYS
FRAME["configuration"] = FRAME["key"] + WORD * MAX_WORDS
FRAME["data"] = -(-(FRAME["configuration"] + CONFIGURATION_BYTES) // MAP_ALIGNMENT) * MAP_ALIGNMENT
FRAME_BYTES = FRAME["data"] + MAX_BYTES
HASH = 11400714819323198485
MAX_DIMENSIONS, ABSENT = 4, -(1 << 63)
"""The maximum number of dimensions of an array and of a launch; the word in a key for an absent argument."""
CUDA, LEGACY = 2, 1
"""DLPack's device type of GPU memory, and the driver's handle of the default stream."""

_TEXT = """
; The launch ----------------------------------------------------------------------------------------------------------

; The key begins with the modes, whether dimensions count blocks, the threads per block (-1: the kernel's default) and
; the dimensions.
define internal i1 @dimensions(ptr %frame, ptr %dim, ptr %block, i64 %mode) {
entry:
  %value.p = alloca i64
  %modes = call ptr @load_global(i64 <W.modes>)
  %code = call i64 @load_word(ptr %modes, i64 0)
  %default = call i64 @load_word(ptr %modes, i64 8)
  call void @append_key(ptr %frame, i64 %code)
  call void @append_key(ptr %frame, i64 %default)
  %tiled = and i64 %mode, <TILED>
  call void @append_key(ptr %frame, i64 %tiled)
  %none = call ptr @load_global(i64 <W.None>)
  %is.default = icmp eq ptr %block, %none
  br i1 %is.default, label %default.size, label %given.size
default.size:
  store i64 -1, ptr %value.p
  br label %size
given.size:
  %is.size = call i1 @integer(ptr %block, ptr %value.p)
  br i1 %is.size, label %checked, label %no
checked:
  %threads.given = load i64, ptr %value.p
  %positive = icmp sgt i64 %threads.given, 0
  br i1 %positive, label %size, label %no
size:
  %threads = load i64, ptr %value.p
  call void @append_key(ptr %frame, i64 %threads)
  %is.integer = call i1 @integer(ptr %dim, ptr %value.p)
  br i1 %is.integer, label %one.dimension, label %sequence
one.dimension:
  %length = load i64, ptr %value.p
  call void @append_key(ptr %frame, i64 1)
  call void @append_key(ptr %frame, i64 %length)
  ret i1 true
sequence:
  %n = call i64 @length(ptr %dim)
  call void @append_key(ptr %frame, i64 %n)
  %dimensions.fit = icmp ule i64 %n, <MAX_DIMENSIONS>
  br i1 %dimensions.fit, label %loop, label %no
loop:
  %k = phi i64 [ 0, %sequence ], [ %next, %append ]
  %in.range = icmp ult i64 %k, %n
  br i1 %in.range, label %body, label %yes
body:
  %object = call ptr @item(ptr %dim, i64 %k)
  %is.extent = call i1 @integer(ptr %object, ptr %value.p)
  br i1 %is.extent, label %append, label %no
append:
  %extent = load i64, ptr %value.p
  call void @append_key(ptr %frame, i64 %extent)
  %next = add i64 %k, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}
define internal i1 @arguments(ptr %frame, ptr %table, ptr %inputs, ptr %outputs) {
entry:
  %input.count = call i64 @length(ptr %inputs)
  %output.count = call i64 @length(ptr %outputs)
  %count = call i64 @load_word(ptr %table, i64 0)
  %has.inputs = icmp sge i64 %input.count, 0
  %has.outputs = icmp sge i64 %output.count, 0
  %sum = add i64 %input.count, %output.count
  %counts.match = icmp eq i64 %sum, %count
  %are.sequences = and i1 %has.inputs, %has.outputs
  %valid = and i1 %are.sequences, %counts.match
  br i1 %valid, label %loop, label %no
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %step ]
  %in.range = icmp ult i64 %k, %count
  br i1 %in.range, label %body, label %checked
body:
  %is.input = icmp ult i64 %k, %input.count
  br i1 %is.input, label %input, label %output
input:
  %x = call ptr @item(ptr %inputs, i64 %k)
  br label %convert
output:
  %j = sub i64 %k, %input.count
  %y = call ptr @item(ptr %outputs, i64 %j)
  br label %convert
convert:
  %object = phi ptr [ %x, %input ], [ %y, %output ]
  %offset = mul i64 %k, <ARGUMENT_BYTES>
  %argument.at = add i64 %offset, <ARGUMENTS_AT>
  %argument = getelementptr i8, ptr %table, i64 %argument.at
  %accepted = call i1 @argument(ptr %frame, ptr %argument, ptr %object)
  br i1 %accepted, label %step, label %no
step:
  %next = add i64 %k, 1
  br label %loop
checked:
  ; Python code launches kernels without arrays, because the device depends on the thread.
  %arrays = call i64 @load_word(ptr %frame, i64 <F.arrays>)
  %has.arrays = icmp ne i64 %arrays, 0
  %key.words = call i64 @load_word(ptr %frame, i64 <F.count>)
  %key.fits = icmp ule i64 %key.words, <MAX_WORDS>
  %supported = and i1 %has.arrays, %key.fits
  br i1 %supported, label %overlap, label %no
overlap:
  %disjoint = call i1 @are_disjoint(ptr %frame)
  ret i1 %disjoint
no:
  ret i1 false
}
define internal i64 @hash(ptr %frame) {
entry:
  %n = call i64 @load_word(ptr %frame, i64 <F.count>)
  %end = shl i64 %n, 3
  %key = getelementptr i8, ptr %frame, i64 <F.key>
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %body ]
  %hash = phi i64 [ 0, %entry ], [ %hash.next, %body ]
  %in.range = icmp ult i64 %k, %end
  br i1 %in.range, label %body, label %finish
body:
  %word = call i64 @load_word(ptr %key, i64 %k)
  %mixed = xor i64 %hash, %word
  %multiplied = mul i64 %mixed, <HASH>
  %high = lshr i64 %multiplied, 32
  %hash.next = xor i64 %multiplied, %high
  %next = add i64 %k, 8
  br label %loop
finish:
  %final = mul i64 %hash, <HASH>
  ret i64 %final
}
; The key as bytes; if memory is exhausted, the constant %otherwise.
define internal ptr @key(ptr %frame, i64 %otherwise) {
  %n = call i64 @load_word(ptr %frame, i64 <F.count>)
  %bytes = shl i64 %n, 3
  %key = getelementptr i8, ptr %frame, i64 <F.key>
  %object = call ptr @PyBytes_FromStringAndSize(ptr %key, i64 %bytes)
  %failed = icmp eq ptr %object, null
  br i1 %failed, label %no.memory, label %success
success:
  ret ptr %object
no.memory:
  call void @PyErr_Clear()
  %constant = call ptr @global_reference(i64 %otherwise)
  ret ptr %constant
}
; Whether all captured variables of the kernel have the values for which it was compiled.
define internal i1 @unchanged(ptr %captures, i64 %count) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %step ]
  %in.range = icmp ult i64 %k, %count
  br i1 %in.range, label %body, label %yes
body:
  %at = mul i64 %k, 24
  %p = getelementptr i8, ptr %captures, i64 %at
  %lookup = load ptr, ptr %p
  %name.p = getelementptr i8, ptr %p, i64 8
  %name = load ptr, ptr %name.p
  %value.p = getelementptr i8, ptr %p, i64 16
  %value = load ptr, ptr %value.p
  %current = call ptr @PyObject_CallOneArg(ptr %lookup, ptr %name)
  %failed.lookup = icmp eq ptr %current, null
  br i1 %failed.lookup, label %failed, label %compare
compare:
  %same = icmp eq ptr %current, %value
  call void @Py_DecRef(ptr %current)
  br i1 %same, label %step, label %no
step:
  %next = add i64 %k, 1
  br label %loop
failed:
  call void @PyErr_Clear()
  br label %no
yes:
  ret i1 true
no:
  ret i1 false
}
; The handle of a tegula stream on the device of a launch; 0 for any other object. F.owned: whether tegula created it.
define internal i64 @stream_handle(ptr %frame, ptr %known, ptr %stream) {
entry:
  %handle.p = alloca i64
  %is.stream = call i1 @is_a(ptr %stream, i64 <W.stream>)
  br i1 %is.stream, label %check.context, label %no
check.context:
  %context.name = call ptr @load_global(i64 <W.context>)
  %context = call ptr @PyObject_GetAttr(ptr %stream, ptr %context.name)
  %no.context = icmp eq ptr %context, null
  br i1 %no.context, label %failed, label %compare
compare:
  call void @Py_DecRef(ptr %context)
  %expected.word = call i64 @load_word(ptr %known, i64 <E.context>)
  %expected = inttoptr i64 %expected.word to ptr
  %same = icmp eq ptr %context, %expected
  br i1 %same, label %get.handle, label %no
get.handle:
  %handle.name = call ptr @load_global(i64 <W.handle>)
  %object = call ptr @PyObject_GetAttr(ptr %stream, ptr %handle.name)
  %no.handle = icmp eq ptr %object, null
  br i1 %no.handle, label %failed, label %read
read:
  %is.int = call i1 @integer(ptr %object, ptr %handle.p)
  call void @Py_DecRef(ptr %object)
  %handle = load i64, ptr %handle.p
  %result = select i1 %is.int, i64 %handle, i64 0
  %owned.name = call ptr @load_global(i64 <W.owned>)
  %owned = call ptr @PyObject_GetAttr(ptr %stream, ptr %owned.name)
  %no.owner = icmp eq ptr %owned, null
  br i1 %no.owner, label %failed, label %set.owner
set.owner:
  call void @Py_DecRef(ptr %owned)
  %true = call ptr @load_global(i64 <W.True>)
  %is.own = icmp eq ptr %owned, %true
  %owned.word = zext i1 %is.own to i64
  call void @store_word(ptr %frame, i64 <F.owned>, i64 %owned.word)
  ret i64 %result
failed:
  call void @PyErr_Clear()
  br label %no
no:
  ret i64 0
}
; The handle of the stream that this thread has set for the device, or the default stream's handle; 0 after an error.
define internal i64 @current_stream_handle(ptr %frame, ptr %known) {
entry:
  %switches = call ptr @load_global(i64 <W.switches>)
  %flag = call i64 @load_word(ptr %switches, i64 0)
  %no.stream.set = icmp eq i64 %flag, 0
  br i1 %no.stream.set, label %default, label %look.up
look.up:
  %local = call ptr @load_global(i64 <W.chosen>)
  %name = call ptr @load_global(i64 <W.streams>)
  %streams = call ptr @PyObject_GetAttr(ptr %local, ptr %name)
  %no.streams = icmp eq ptr %streams, null
  br i1 %no.streams, label %failed, label %select
select:
  %number.word = call i64 @load_word(ptr %known, i64 <E.number>)
  %number = inttoptr i64 %number.word to ptr
  %stream = call ptr @PyDict_GetItem(ptr %streams, ptr %number)
  %absent = icmp eq ptr %stream, null
  br i1 %absent, label %unset, label %set
unset:
  call void @Py_DecRef(ptr %streams)
  br label %default
set:
  %handle = call i64 @stream_handle(ptr %frame, ptr %known, ptr %stream)
  call void @Py_DecRef(ptr %streams)
  ret i64 %handle
default:
  ret i64 <LEGACY>
failed:
  call void @PyErr_Clear()
  ret i64 0
}
; The handle of the stream to launch in: the argument, else the stream that the thread has set, else PyTorch's current
; stream if all arrays are tensors. 0 if Python code must launch, for example to order tegula arrays with PyTorch's
; stream.
define internal i64 @stream(ptr %frame, ptr %known) {
entry:
  %stream.p = alloca i64
  %switches = call ptr @load_global(i64 <W.switches>)
  %recordings = call i64 @load_word(ptr %switches, i64 8)
  %not.recording = icmp eq i64 %recordings, 0
  br i1 %not.recording, label %check.given, label %no
check.given:
  %argument.word = call i64 @load_word(ptr %frame, i64 <F.stream>)
  %argument = inttoptr i64 %argument.word to ptr
  %none = call ptr @load_global(i64 <W.None>)
  %not.given = icmp eq ptr %argument, %none
  br i1 %not.given, label %check.current, label %given
given:
  %given.handle = call i64 @stream_handle(ptr %frame, ptr %known, ptr %argument)
  ret i64 %given.handle
check.current:
  %current = call i64 @current_stream_handle(ptr %frame, ptr %known)
  %is.default = icmp eq i64 %current, <LEGACY>
  %foreign = call i64 @load_word(ptr %frame, i64 <F.foreign>)
  %has.tensors = icmp ne i64 %foreign, 0
  %use.foreign = and i1 %is.default, %has.tensors
  br i1 %use.foreign, label %query, label %use.current
use.current:
  ret i64 %current
query:
  %function = call ptr @load_global(i64 <W.current_stream>)
  %ordinal = call i64 @load_word(ptr %frame, i64 <F.ordinal>)
  %device = trunc i64 %ordinal to i32
  %code = call i32 %function(i32 <CUDA>, i32 %device, ptr %stream.p)
  %succeeded = icmp eq i32 %code, 0
  br i1 %succeeded, label %queried, label %failed
queried:
  %stream = load i64, ptr %stream.p
  %is.legacy = icmp ule i64 %stream, <LEGACY>
  br i1 %is.legacy, label %legacy, label %foreign.stream
legacy:
  ret i64 <LEGACY>
foreign.stream:
  %native.arrays = call i64 @load_word(ptr %frame, i64 <F.native>)
  %only.tensors = icmp eq i64 %native.arrays, 0
  %handle = select i1 %only.tensors, i64 %stream, i64 0
  ret i64 %handle
failed:
  call void @PyErr_Clear()
  br label %no
no:
  ret i64 0
}
; Whether the device can be used, and its context is current.
define internal i1 @is_usable(ptr %device) {
entry:
  %context.p = alloca ptr
  %usable.word = call i64 @load_word(ptr %device, i64 <D.usable>)
  %usable = icmp ne i64 %usable.word, 0
  br i1 %usable, label %check.devices, label %no
check.devices:
  %single.word = call i64 @load_word(ptr %device, i64 <D.alone>)
  %single = icmp ne i64 %single.word, 0
  br i1 %single, label %yes, label %query
query:
  %function.word = call i64 @load_word(ptr %device, i64 <D.current>)
  %function = inttoptr i64 %function.word to ptr
  store ptr null, ptr %context.p
  %code = call i32 %function(ptr %context.p)
  %current = load ptr, ptr %context.p
  %current.word = ptrtoint ptr %current to i64
  %expected = call i64 @load_word(ptr %device, i64 <D.context>)
  %same = icmp eq i64 %current.word, %expected
  ret i1 %same
yes:
  ret i1 true
no:
  ret i1 false
}
; Launch an entry's kernel; whether the driver accepted the launch.
define internal i1 @submit(ptr %frame, ptr %known, ptr %fixups) {
entry:
  %parameters = alloca ptr
  %device.word = call i64 @load_word(ptr %known, i64 <E.device>)
  %device = inttoptr i64 %device.word to ptr
  %ready = call i1 @is_usable(ptr %device)
  br i1 %ready, label %get.stream, label %no
get.stream:
  %stream = call i64 @stream(ptr %frame, ptr %known)
  %has.stream = icmp ne i64 %stream, 0
  br i1 %has.stream, label %fill, label %no
fill:
  %bytes = call i64 @load_word(ptr %frame, i64 <F.bytes>)
  %data = getelementptr i8, ptr %frame, i64 <F.data>
  %end = getelementptr i8, ptr %data, i64 %bytes
  %tail.bytes = call i64 @load_word(ptr %known, i64 <E.tail>)
  %fixups.count = call i64 @load_word(ptr %known, i64 <E.fixups>)
  %fixups.bytes = mul i64 %fixups.count, 24
  %tail = getelementptr i8, ptr %fixups, i64 %fixups.bytes
  call void @copy(ptr %end, ptr %tail, i64 %tail.bytes)
  br label %maps
maps:
  %fixup.at = phi i64 [ 0, %fill ], [ %fixup.next, %next.map ]
  %more.fixups = icmp ult i64 %fixup.at, %fixups.bytes
  br i1 %more.fixups, label %check.map, label %configure
check.map:
  %fixup = getelementptr i8, ptr %fixups, i64 %fixup.at
  %map.at = call i64 @load_word(ptr %fixup, i64 0)
  %address.at = call i64 @load_word(ptr %fixup, i64 8)
  %encoded.address = call i64 @load_word(ptr %fixup, i64 16)
  %address = call i64 @load_word(ptr %data, i64 %address.at)
  %unchanged = icmp eq i64 %address, %encoded.address
  br i1 %unchanged, label %next.map, label %patch
patch:
  %map = getelementptr i8, ptr %data, i64 %map.at
  %replace.word = call i64 @load_word(ptr %device, i64 <D.replace>)
  %replace = inttoptr i64 %replace.word to ptr
  %replaced.code = call i32 %replace(ptr %map, i64 %address)
  %replaced = icmp eq i32 %replaced.code, 0
  br i1 %replaced, label %next.map, label %no
next.map:
  %fixup.next = add i64 %fixup.at, 24
  br label %maps
configure:
  %template = getelementptr i8, ptr %known, i64 <E.configuration>
  %configuration = getelementptr i8, ptr %frame, i64 <F.configuration>
  call void @copy(ptr %configuration, ptr %template, i64 <CONFIGURATION_BYTES>)
  call void @store_word(ptr %configuration, i64 <STREAM_AT>, i64 %stream)
  ; Another library's stream may be recorded: launches there do not use programmatic launch, the first attribute.
  %default = icmp eq i64 %stream, <LEGACY>
  %own = call i64 @load_word(ptr %frame, i64 <F.owned>)
  %is.owned = icmp ne i64 %own, 0
  %is.known = or i1 %default, %is.owned
  %attributes = call i64 @load_word(ptr %configuration, i64 <ATTRIBUTES_AT>)
  %no.attributes = icmp eq i64 %attributes, 0
  %keep.attributes = or i1 %is.known, %no.attributes
  %fewer = sub i64 %attributes, 1
  %attribute.count = select i1 %keep.attributes, i64 %attributes, i64 %fewer
  call void @store_word(ptr %configuration, i64 <ATTRIBUTES_AT>, i64 %attribute.count)
  %first = call i64 @load_word(ptr %configuration, i64 <FIRST_ATTRIBUTE_AT>)
  %second = add i64 %first, <ATTRIBUTE_BYTES>
  %attributes.start = select i1 %keep.attributes, i64 %first, i64 %second
  call void @store_word(ptr %configuration, i64 <FIRST_ATTRIBUTE_AT>, i64 %attributes.start)
  store ptr %data, ptr %parameters
  %function = call i64 @load_word(ptr %known, i64 <E.function>)
  %launch.word = call i64 @load_word(ptr %device, i64 <D.launch>)
  %launch = inttoptr i64 %launch.word to ptr
  %thread = call ptr @PyEval_SaveThread()
  %code = call i32 %launch(ptr %configuration, i64 %function, ptr %parameters, ptr null)
  call void @PyEval_RestoreThread(ptr %thread)
  %succeeded = icmp eq i32 %code, 0
  br i1 %succeeded, label %record, label %no
record:
  %append.word = call i64 @load_word(ptr %known, i64 <E.append>)
  %append = inttoptr i64 %append.word to ptr
  %name.word = call i64 @load_word(ptr %known, i64 <E.name>)
  %name = inttoptr i64 %name.word to ptr
  %appended = call ptr @PyObject_CallOneArg(ptr %append, ptr %name)
  %append.failed = icmp eq ptr %appended, null
  br i1 %append.failed, label %not.recorded, label %recorded
recorded:
  call void @Py_DecRef(ptr %appended)
  ret i1 true
not.recorded:
  call void @PyErr_Clear()
  ret i1 true
no:
  ret i1 false
}
; Launch a cached entry with a matching hash. Returns the result of `launch`, or null if the entry is for another key.
define internal ptr @launch_entry(ptr %frame, ptr %known) {
entry:
  %words.object = call ptr @PyTuple_GetItem(ptr %known, i64 0)
  %entry.p = call ptr @PyBytes_AsString(ptr %words.object)
  %n = call i64 @load_word(ptr %frame, i64 <F.count>)
  %entry.words = call i64 @load_word(ptr %entry.p, i64 <E.words>)
  %same.length = icmp eq i64 %n, %entry.words
  br i1 %same.length, label %compare, label %other
compare:
  %bytes = shl i64 %n, 3
  %key = getelementptr i8, ptr %frame, i64 <F.key>
  %entry.key = getelementptr i8, ptr %entry.p, i64 <KEY_AT>
  %same = call i1 @equal(ptr %key, ptr %entry.key, i64 %bytes)
  br i1 %same, label %check, label %other
check:
  %captures = getelementptr i8, ptr %entry.key, i64 %bytes
  %count = call i64 @load_word(ptr %entry.p, i64 <E.captures>)
  %unchanged = call i1 @unchanged(ptr %captures, i64 %count)
  br i1 %unchanged, label %launch, label %other
launch:
  %captures.bytes = mul i64 %count, 24
  %fixups = getelementptr i8, ptr %captures, i64 %captures.bytes
  %submitted = call i1 @submit(ptr %frame, ptr %entry.p, ptr %fixups)
  br i1 %submitted, label %launched, label %no
launched:
  %foreign = call i64 @load_word(ptr %frame, i64 <F.foreign>)
  %no.tensors = icmp eq i64 %foreign, 0
  br i1 %no.tensors, label %true, label %written
written:
  %writes.word = call i64 @load_word(ptr %entry.p, i64 <E.writes>)
  %writes = inttoptr i64 %writes.word to ptr
  %reads.only = icmp eq ptr %writes, null
  br i1 %reads.only, label %true, label %return.writes
return.writes:
  call void @Py_IncRef(ptr %writes)
  ret ptr %writes
true:
  %yes = call ptr @global_reference(i64 <W.True>)
  ret ptr %yes
other:
  ret ptr null
no:
  %false = call ptr @global_reference(i64 <W.False>)
  ret ptr %false
}
@any = internal constant [<ARGUMENT_WORDS> x i64] [i64 <ARRAY>, i64 0, i64 <WITH_ALIGNMENT>, i64 1, i64 0, i64 0]

define internal void @clear(ptr %frame) {
  call void @store_word(ptr %frame, i64 <F.count>, i64 0)
  call void @store_word(ptr %frame, i64 <F.bytes>, i64 0)
  call void @store_word(ptr %frame, i64 <F.arrays>, i64 0)
  call void @store_word(ptr %frame, i64 <F.native>, i64 0)
  call void @store_word(ptr %frame, i64 <F.foreign>, i64 0)
  call void @store_word(ptr %frame, i64 <F.owned>, i64 0)
  ret void
}
; The key of launches with these arrays and Nones, apart from addresses, as bytes; None for any other argument.
define ptr @describe(ptr %self, ptr %given, i64 %count) {
entry:
  %frame = alloca [<FRAME_BYTES> x i8], align <MAP_ALIGNMENT>
  call void @clear(ptr %frame)
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %step ]
  %in.range = icmp ult i64 %k, %count
  br i1 %in.range, label %body, label %finish
body:
  %p = getelementptr ptr, ptr %given, i64 %k
  %object = load ptr, ptr %p
  %none = call ptr @load_global(i64 <W.None>)
  %absent = icmp eq ptr %object, %none
  br i1 %absent, label %append.absent, label %append.argument
append.absent:
  ; This word is neither the id of a specialisation nor the negative word of a tensor.
  call void @append_key(ptr %frame, i64 <ABSENT>)
  br label %step
append.argument:
  %accepted = call i1 @argument(ptr %frame, ptr @any, ptr %object)
  br i1 %accepted, label %step, label %no
step:
  %next = add i64 %k, 1
  br label %loop
finish:
  %key.words = call i64 @load_word(ptr %frame, i64 <F.count>)
  %key.fits = icmp ule i64 %key.words, <MAX_WORDS>
  br i1 %key.fits, label %return.key, label %no
return.key:
  %key = call ptr @key(ptr %frame, i64 <W.None>)
  ret ptr %key
no:
  %unknown = call ptr @global_reference(i64 <W.None>)
  ret ptr %unknown
}
define ptr @launch(ptr %self, ptr %given, i64 %count) {
entry:
  %frame = alloca [<FRAME_BYTES> x i8], align <MAP_ALIGNMENT>
  %mode.p = alloca i64
  call void @clear(ptr %frame)
  %has.six = icmp eq i64 %count, 6
  br i1 %has.six, label %read.arguments, label %no
read.arguments:
  %stream.p = getelementptr i8, ptr %given, i64 40
  %stream = load i64, ptr %stream.p
  call void @store_word(ptr %frame, i64 <F.stream>, i64 %stream)
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
  br i1 %fits, label %has.key, label %no
has.key:
  %describe.bit = and i64 %mode, <DESCRIBE>
  %describe = icmp ne i64 %describe.bit, 0
  br i1 %describe, label %return.key, label %find
find:
  %hash = call i64 @hash(ptr %frame)
  %first.slot = lshr i64 %hash, <HASH_SHIFT>
  br label %probe
probe:
  %probe.index = phi i64 [ 0, %find ], [ %probe.next, %next.slot ]
  %in.range = icmp ult i64 %probe.index, <PROBE_LENGTH>
  br i1 %in.range, label %read.slot, label %miss
read.slot:
  %slot.sum = add i64 %first.slot, %probe.index
  %slot.index = and i64 %slot.sum, <LAST_SLOT>
  %slot.offset = mul i64 %slot.index, <SLOT_BYTES>
  %slot.at = add i64 %slot.offset, <SLOTS_AT>
  %slot = getelementptr i8, ptr %table, i64 %slot.at
  %slot.hash = call i64 @load_word(ptr %slot, i64 8)
  %same = icmp eq i64 %slot.hash, %hash
  %slot.entry = load ptr, ptr %slot
  %filled = icmp ne ptr %slot.entry, null
  %is.candidate = and i1 %same, %filled
  br i1 %is.candidate, label %launch.entry, label %next.slot
launch.entry:
  call void @Py_IncRef(ptr %slot.entry)
  %result = call ptr @launch_entry(ptr %frame, ptr %slot.entry)
  call void @Py_DecRef(ptr %slot.entry)
  %is.other = icmp eq ptr %result, null
  br i1 %is.other, label %next.slot, label %out
next.slot:
  %probe.next = add i64 %probe.index, 1
  br label %probe
out:
  ret ptr %result
miss:
  %miss.offset = shl i64 %first.slot, 4
  %miss.at = add i64 %miss.offset, <MISSES_AT>
  %older.at = add i64 %miss.at, 8
  %newer = call i64 @load_word(ptr %table, i64 %miss.at)
  %older = call i64 @load_word(ptr %table, i64 %older.at)
  %is.newer = icmp eq i64 %newer, %hash
  %is.older = icmp eq i64 %older, %hash
  %recurs = or i1 %is.newer, %is.older
  br i1 %recurs, label %return.key, label %record.miss
record.miss:
  call void @store_word(ptr %table, i64 %miss.at, i64 %hash)
  call void @store_word(ptr %table, i64 %older.at, i64 %newer)
  br label %no
return.key:
  %key = call ptr @key(ptr %frame, i64 <W.False>)
  ret ptr %key
no:
  %false = call ptr @global_reference(i64 <W.False>)
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
    types = [type_of_argument for type_of_argument in rest.strip("()").split(", ") if type_of_argument]
    arguments = ", ".join(f"{type_of_argument} %a{k}" for k, type_of_argument in enumerate(types))
    value = "" if result == "void" else "%r = "
    terminator = "ret void" if result == "void" else f"ret {result} %r"
    return f"""
define internal {result} @{name}({arguments}) alwaysinline {{
  %function = call ptr @load_global(i64 {GLOBALS[name]})
  {value}call {result} %function({arguments})
  {terminator}
}}"""


def launcher_text() -> str:
    """LLVM IR of `begin`, which takes the address of the globals, of `launch` and of `describe`."""
    placeholders = {
        **{f"W.{name}": at for name, at in GLOBALS.items()},
        **{f"F.{name}": at for name, at in FRAME.items()},
        **{f"E.{name}": at for name, at in ENTRY.items()},
        **{f"D.{name}": at for name, at in DEVICE.items()},
        "TILED": TILED,
        "DESCRIBE": DESCRIBE,
        "ARGUMENT_BYTES": ARGUMENT_WORDS * WORD,
        "HASH_SHIFT": 64 - SLOT_BITS,
        "LAST_SLOT": (1 << SLOT_BITS) - 1,
    }
    constants = (
        *("ARRAY", "INTEGER", "SINGLE", "DOUBLE", "MAX_WORDS", "MAX_ARRAYS", "ARGUMENTS_AT", "SLOTS_AT"),
        *("SLOT_BYTES", "PROBE_LENGTH", "MISSES_AT", "HASH", "CUDA", "LEGACY"),
        *("CONFIGURATION_BYTES", "STREAM_AT", "FIRST_ATTRIBUTE_AT", "ATTRIBUTES_AT", "ATTRIBUTE_BYTES"),
        *("KEY_AT", "KEYED_AT", "FRAME_BYTES", "MAP_ALIGNMENT", "WITH_ADDRESS", "WITH_ALIGNMENT"),
        *("ARGUMENT_WORDS", "MAX_DIMENSIONS", "ABSENT"),
    )
    placeholders |= {name: globals()[name] for name in constants}
    text = BASICS + ARGUMENTS + _TEXT + "".join(_wrapper(name, type) for name, type in FUNCTIONS.items())
    for name, value in placeholders.items():
        text = text.replace(f"<{name}>", str(value))
    return text
