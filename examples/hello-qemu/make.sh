#!/bin/sh
# Makes this example: builds the program, records it, and encodes what it did.
#
# Needs the Debian packages gcc-aarch64-linux-gnu and qemu-user, and unspool with its plugin (cargo build).
set -eu
cd "$(dirname "$0")"
unspool=${UNSPOOL:-../../target/debug/unspool}

aarch64-linux-gnu-gcc -O1 -static -nostdlib -ffreestanding -fno-stack-protector -fno-asynchronous-unwind-tables \
    -Wl,--build-id=none -Wl,-z,noseparate-code -Wl,-z,max-page-size=4096 -o hello hello.c
aarch64-linux-gnu-strip --strip-debug hello

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
"$unspool" record -o "$work/hello.astf" -- ./hello
"$unspool" encode "$work/hello.astf" -o "$work/capture" --return-stack --formatted
"$unspool" diff "$work/capture" "$work/hello.astf"

# The program itself is the image, so that its functions have names. It is linked so that memory has the layout of the file.
rm -f ./*.ini ./*.bin
cp "$work"/capture/*.ini "$work"/capture/*.bin .
rm program_*.bin
sed -i '/^\[dump/,$d' cpu_0.ini
printf '[dump1]\nfile=hello\naddress=0x0000000000400000\n' >>cpu_0.ini
