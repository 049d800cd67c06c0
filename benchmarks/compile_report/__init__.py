"""What the compiler makes of every timed GPU kernel, read off the machine code, without a GPU."""
