/*
 * Damaged input: damaged_bytes FILE TRACE DISTANCE.
 *
 * FILE is TRACE, or a file of the capture TRACE. Damages one of DISTANCE bytes at a time, reads the trace to its end with every
 * iterator, and repairs the byte. Any status is right but that of a defect.
 */

#include <stdio.h>
#include <stdlib.h>

#include "unspool.h"

enum { BATCH = 100 };

static unsigned long openings, errors, items, gaps;

static void fail(const char *reason) {
    fprintf(stderr, "%s: %s\n", reason, unspool_error_message());
    exit(1);
}

/* Whether reading continues after this status, with which as many items came. */
static int continues(UnspoolStatus status, size_t count) {
    if (status == UNSPOOL_STATUS_PANIC || status == UNSPOOL_STATUS_NULL_ARGUMENT)
        fail("a defect");
    if ((status == UNSPOOL_STATUS_OK) != (count > 0))
        fail("a wrong count");
    errors += status != UNSPOOL_STATUS_OK && status != UNSPOOL_STATUS_END;
    items += count;
    return status != UNSPOOL_STATUS_END;
}

/* Reads all items of a kind, if the trace has this kind. */
#define READ_ALL(kind, iterator, type)                                                          \
    static void read_##kind(const UnspoolTrace *trace) {                                        \
        type batch[BATCH];                                                                      \
        iterator *handle = NULL;                                                                \
        size_t count = 0;                                                                       \
        UnspoolStatus status = unspool_##kind##_open(trace, &handle);                           \
        continues(status, handle != NULL);                                                      \
        while (handle != NULL) {                                                                \
            status = unspool_##kind##_read(handle, batch, BATCH, &count);                       \
            if (!continues(status, count))                                                      \
                break;                                                                          \
        }                                                                                       \
        unspool_##kind##_free(handle);                                                          \
    }

READ_ALL(instructions, UnspoolInstructions, UnspoolExecutedInstruction)
READ_ALL(blocks, UnspoolBlocks, UnspoolBlock)
READ_ALL(packets, UnspoolPackets, UnspoolPacket)

/* Touches every byte that a step points to. */
static unsigned long sum(const UnspoolStep *step) {
    unsigned long sum = 0;
    for (size_t i = 0; i < step->access_count; i++)
        for (size_t k = 0; k < step->accesses[i].length; k++)
            sum += step->accesses[i].bytes[k] & step->accesses[i].known_bits[k];
    for (size_t i = 0; i < step->register_count; i++) {
        const UnspoolRegisterWrite *write = &step->registers[i];
        for (size_t k = 0; k < write->length; k++)
            sum += write->bytes[k] & write->known_bits[k];
        for (size_t k = 0; k < write->name.length; k++)
            sum += (unsigned char)write->name.data[k];
    }
    for (size_t k = 0; k < step->note.length; k++)
        sum += (unsigned char)step->note.data[k];
    return sum;
}

static unsigned long read_steps(const UnspoolTrace *trace) {
    UnspoolSteps *steps = NULL;
    const UnspoolStep *step = NULL;
    unsigned long total = 0;
    UnspoolStatus status = unspool_steps_open(trace, &steps);
    continues(status, steps != NULL);
    while (steps != NULL) {
        status = unspool_steps_next(steps, &step);
        if (!continues(status, step != NULL))
            break;
        if (step != NULL) {
            gaps += step->event == UNSPOOL_EVENT_GAP && step->gap.kind != UNSPOOL_GAP_KIND_START;
            total += sum(step);
        }
    }
    unspool_steps_free(steps);
    return total;
}

static unsigned long read_trace(const char *path) {
    UnspoolTrace *trace = NULL;
    unsigned long total = 0;
    UnspoolStatus status = unspool_open(path, &trace);
    continues(status, trace != NULL);
    if (trace != NULL) {
        openings++;
        read_instructions(trace);
        read_blocks(trace);
        read_packets(trace);
        total = read_steps(trace);
    }
    unspool_trace_free(trace);
    return total;
}

int main(int argc, char **argv) {
    FILE *file;
    long length, distance, offset;
    unsigned long total = 0;
    if (argc != 4 || (distance = atol(argv[3])) < 1 || (file = fopen(argv[1], "r+b")) == NULL) {
        fprintf(stderr, "usage: damaged_bytes FILE TRACE DISTANCE\n");
        return 2;
    }
    fseek(file, 0, SEEK_END);
    length = ftell(file);
    for (offset = 0; offset < length; offset += distance) {
        int byte;
        fseek(file, offset, SEEK_SET);
        byte = fgetc(file);
        fseek(file, offset, SEEK_SET);
        fputc(byte ^ 0xff, file);
        fflush(file);
        total += read_trace(argv[2]);
        fseek(file, offset, SEEK_SET);
        fputc(byte, file);
        fflush(file);
    }
    fclose(file);
    printf("%s: %ld bytes damaged, %lu openings, %lu errors, %lu items, %lu gaps, sum %lu\n", argv[1],
           (length + distance - 1) / distance, openings, errors, items, gaps, total);
    return openings > 0 && items > 0 ? 0 : 1;
}
