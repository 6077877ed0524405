// The one function that programs in Rust take from bcryptprimitives.dll, which wine 8 (Debian 12) does not have yet.
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T length) { return RtlGenRandom(bytes, (ULONG)length); }
