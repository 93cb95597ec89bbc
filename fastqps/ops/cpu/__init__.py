"""The operations on the CPU, in C++ where torch is slower."""
