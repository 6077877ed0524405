#!/bin/sh
# Makes the programs of this folder, and the lines of their addresses as GNU addr2line finds them.
#
# Needs the Debian packages gcc-aarch64-linux-gnu, gcc-arm-linux-gnueabihf, their binutils, llvm and qemu-user, and unspool with its
# plugin (cargo build).
set -eu
cd "$(dirname "$0")"
options="-O1 -static -nostdlib -ffreestanding -fno-stack-protector -fno-asynchronous-unwind-tables -fno-tree-loop-distribute-patterns
    -ffile-prefix-map=$PWD=/src -Wl,-z,noseparate-code -Wl,-z,max-page-size=4096"
a64=aarch64-linux-gnu
arm=arm-linux-gnueabihf

# shellcheck disable=SC2086
{
    $a64-gcc $options -g -gdwarf-5 -Wl,--build-id=0x0102030405060708 -o shapes shapes.c
    $a64-gcc $options -g -gdwarf-4 -gsplit-dwarf -Wl,--build-id=none -o shapes-split4 shapes.c
    $a64-gcc $options -g -gdwarf-5 -gsplit-dwarf -Wl,--build-id=none -o shapes-split shapes.c
    $arm-gcc $options -mthumb -g -gdwarf-4 -Wl,--build-id=none -o shapes-t32 shapes.c
}
# The same program without debug information, and the file that has it, compressed: found by name or by build ID.
$a64-objcopy --only-keep-debug --compress-debug-sections=zlib shapes shapes.debug
$a64-objcopy --strip-debug --add-gnu-debuglink=shapes.debug shapes shapes-stripped
# Split debug information in a package. GNU addr2line does not find inlined calls in split files, so there is no list of them.
llvm-dwp shapes-split4-shapes.dwo -o shapes-split4.dwp

# One line per address: the address, then function and position of each frame, innermost first.
lines() {
    "$1-objdump" -d -j .text "$2" | sed -n 's/^ *\([0-9a-f]*\):\t.*/0x\1/p' |
        "$1-addr2line" -e "$2" -a -f -i | sed 's/ (discriminator [0-9]*)$//' | tr '\n' ' ' |
        sed 's/ 0x/\n0x/g; s/ $/\n/' >"$2.expected"
}
lines $a64 shapes
lines $arm shapes-t32

# What the programs executed.
unspool=${UNSPOOL:-../../target/debug/unspool}
"$unspool" record --force -o shapes.astf -- ./shapes || true
"$unspool" record --force -o shapes-t32.tarmac -- ./shapes-t32 || true
