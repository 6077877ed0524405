#!/bin/sh
# Makes the inputs of tools/counts: two programs, recorded and encoded.
#
#   hot    loops, recursion, a sort and calls by pointers: the same code again and again
#   cold   600 functions of different code, each called twice, in an order without a pattern
#
# Needs the Debian packages gcc-aarch64-linux-gnu and qemu-user, zip, and unspool with its plugin (cargo build).
set -eu
cd "$(dirname "$0")"
unspool=${UNSPOOL:-../../target/debug/unspool}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

# A function for each number: branches that depend on the data, and a loop of a few rounds.
awk 'BEGIN {
    srand(7)
    print "static unsigned data[256];"
    for (f = 0; f < 600; f++) {
        printf "static __attribute__((noinline)) unsigned f%d(unsigned x) {\n", f
        for (line = 0; line < 6 + int(rand() * 12); line++)
            printf "  if (x & %d) x = (x ^ %du) * 33 + data[x & 255]; else data[x & 255] ^= x;\n", 2 ^ int(rand() * 12), rand() * 4e9
        printf "  for (unsigned i = 0; i < %d; i++) x = x * 33 + data[i + %d];\n  return x;\n}\n", 1 + rand() * 4, rand() * 200
    }
    print "void _start(void) {\n  unsigned x = 1;"
    for (call = 0; call < 1200; call++) printf "  x = f%d(x);\n", (call * 277) % 600
    print "  register long number __asm__(\"x8\") = 93, code __asm__(\"x0\") = x & 0;"
    print "  __asm__ volatile(\"svc 0\" : : \"r\"(number), \"r\"(code));\n  for (;;) {}\n}"
}' >"$work/cold.c"
cp hot.c "$work"

for name in hot cold; do
    aarch64-linux-gnu-gcc -O1 -static -nostdlib -ffreestanding -fno-stack-protector -fno-asynchronous-unwind-tables \
        -fno-tree-loop-distribute-patterns -Wl,--build-id=none -Wl,-z,noseparate-code -Wl,-z,max-page-size=4096 \
        -o "$work/$name" "$work/$name.c"
    "$unspool" record -o "$work/$name.astf" -- "$work/$name"
    "$unspool" encode "$work/$name.astf" -o "$work/$name-capture" --return-stack --formatted
    rm -f "$name.zip"
    (cd "$work/$name-capture" && TZ=UTC find . -type f -exec touch -d 2026-01-01 {} + && zip -qrX9 "$OLDPWD/$name.zip" .)
done
