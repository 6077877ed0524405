// Instructions that the emulator ignores or does not report: some traces omit them.
static char block[256] __attribute__((aligned(256)));

int main(void) {
    long status;
    asm volatile("prfm pldl1keep, [%1]\n\t"
                 "prfm pstl1strm, [%1, #64]\n\t"
                 "dc zva, %1\n\t"
                 "dc cvau, %1\n\t"
                 "ic ivau, %1\n\t"
                 "clrex\n\t"
                 "stxr %w0, xzr, [%1]"
                 : "=&r"(status)
                 : "r"(block)
                 : "memory");
    return status != 1;
}
