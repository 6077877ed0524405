/* Lists the functions that a trace executed, in the order of their first instruction: functions TRACE [IMAGE...]. */

#include <inttypes.h>
#include <stdio.h>

#include "unspool.h"

enum { BATCH = 256, MOST_FUNCTIONS = 4096 };

struct function {
    UnspoolText name; /* of the trace; no text: unknown */
    uint64_t instructions;
};

static struct function functions[MOST_FUNCTIONS];
static size_t function_count;

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, unspool_error_message());
    return 1;
}

/* A name is the same text for every address of the function. */
static void count(UnspoolText name, uint32_t instructions) {
    size_t i = 0;
    while (i < function_count && functions[i].name.data != name.data)
        i++;
    if (i == MOST_FUNCTIONS)
        return;
    if (i == function_count)
        functions[function_count++].name = name;
    functions[i].instructions += instructions;
}

/* Reads all blocks. What cannot be read is reported, and reading continues after it. */
static int read_blocks(const UnspoolTrace *trace, UnspoolBlocks *blocks) {
    UnspoolBlock batch[BATCH];
    UnspoolStatus status;
    size_t length;
    int result = 0;
    while ((status = unspool_blocks_read(blocks, batch, BATCH, &length)) != UNSPOOL_STATUS_END) {
        if (status != UNSPOOL_STATUS_OK)
            result = failed("blocks");
        for (size_t i = 0; i < length; i++) {
            UnspoolText name;
            unspool_trace_function(trace, batch[i].start, &name);
            count(name, batch[i].instructions);
        }
    }
    return result;
}

int main(int argc, char **argv) {
    UnspoolTrace *trace;
    UnspoolBlocks *blocks;
    uint64_t total = 0;
    int result;
    if (argc < 2) {
        fprintf(stderr, "usage: functions TRACE [IMAGE...]\n");
        return 2;
    }
    if (unspool_open(argv[1], &trace) != UNSPOOL_STATUS_OK)
        return failed("open");
    for (int i = 2; i < argc; i++)
        if (unspool_trace_add_image(trace, argv[i]) != UNSPOOL_STATUS_OK)
            failed(argv[i]);
    if (unspool_blocks_open(trace, &blocks) != UNSPOOL_STATUS_OK) {
        unspool_trace_free(trace);
        return failed("blocks");
    }
    result = read_blocks(trace, blocks);
    for (size_t i = 0; i < function_count; i++) {
        UnspoolText name = functions[i].name;
        printf("%.*s: %" PRIu64 " instructions\n", name.data ? (int)name.length : 1, name.data ? name.data : "?",
               functions[i].instructions);
        total += functions[i].instructions;
    }
    printf("%" PRIu64 " instructions\n", total);
    unspool_blocks_free(blocks);
    unspool_trace_free(trace);
    return result;
}
