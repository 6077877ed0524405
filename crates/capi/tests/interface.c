/*
 * The interface as C sees it: interface EXAMPLES LOST-FRAMES TRUNCATED.
 *
 * EXAMPLES is the folder of shipped examples. LOST-FRAMES is a copy of hello-ete with a damaged frame in its buffer, and
 * TRUNCATED the first part of example.astf.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unspool.h"

static int checks;

#define CHECK(condition)                                                                                    \
    do {                                                                                                    \
        checks++;                                                                                           \
        if (!(condition)) {                                                                                 \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, unspool_error_message());   \
            exit(1);                                                                                        \
        }                                                                                                   \
    } while (0)

/* Path of an example. Valid until the next call. */
static const char *example(const char *folder, const char *name) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static UnspoolTrace *open_trace(const char *path) {
    UnspoolTrace *trace = NULL;
    CHECK(unspool_open(path, &trace) == UNSPOOL_STATUS_OK);
    CHECK(trace != NULL);
    return trace;
}

static int is(UnspoolText text, const char *expected) {
    return text.data != NULL && text.length == strlen(expected) && memcmp(text.data, expected, text.length) == 0;
}

/* NULL is refused by every function, and results are NULL or 0. */
static void null_arguments(const char *examples) {
    UnspoolTrace *trace = open_trace(example(examples, "hello-qemu"));
    UnspoolInstructions *instructions = NULL;
    UnspoolBlocks *blocks = NULL;
    UnspoolPackets *packets = NULL;
    UnspoolSteps *steps = NULL;
    UnspoolTrace *other = trace;
    UnspoolExecutedInstruction instruction;
    UnspoolBlock block;
    UnspoolPacket packet;
    const UnspoolStep *step = (const UnspoolStep *)&block;
    UnspoolText text = {"x", 1};
    UnspoolKind kind = UNSPOOL_KIND_STF;
    size_t count = 7;
    const UnspoolStatus null = UNSPOOL_STATUS_NULL_ARGUMENT;

    CHECK(unspool_open(NULL, &other) == null && other == NULL);
    CHECK(strcmp(unspool_error_message(), "path is NULL") == 0);
    CHECK(unspool_open("x", NULL) == null);
    CHECK(unspool_open_buffer(NULL, "ete", &other) == null);
    CHECK(unspool_open_buffer("x", NULL, &other) == null);
    CHECK(unspool_open_buffer("x", "ete", NULL) == null);
    CHECK(unspool_trace_kind(NULL, &kind) == null && kind == UNSPOOL_KIND_OTHER);
    CHECK(unspool_trace_kind(trace, NULL) == null);
    CHECK(unspool_trace_source_count(NULL, &count) == null && count == 0);
    CHECK(unspool_trace_source_count(trace, NULL) == null);
    CHECK(unspool_trace_source_name(NULL, 0, &text) == null && text.data == NULL);
    CHECK(unspool_trace_source_name(trace, 0, NULL) == null);
    CHECK(unspool_trace_select_source(NULL, "x") == null);
    CHECK(unspool_trace_select_source(trace, NULL) == null);
    CHECK(unspool_trace_add_image(NULL, "x") == UNSPOOL_STATUS_NULL_ARGUMENT);
    CHECK(unspool_trace_add_image(trace, NULL) == null);
    CHECK(unspool_trace_function(NULL, 0, &text) == null);
    CHECK(unspool_trace_function(trace, 0, NULL) == null);
    CHECK(unspool_instructions_open(NULL, &instructions) == null && instructions == NULL);
    CHECK(unspool_instructions_open(trace, NULL) == null);
    CHECK(unspool_blocks_open(NULL, &blocks) == null && unspool_blocks_open(trace, NULL) == null);
    CHECK(unspool_packets_open(NULL, &packets) == null && unspool_packets_open(trace, NULL) == null);
    CHECK(unspool_steps_open(NULL, &steps) == null && unspool_steps_open(trace, NULL) == null);
    CHECK(unspool_instructions_read(NULL, &instruction, 1, &count) == null);
    CHECK(unspool_blocks_read(NULL, &block, 1, &count) == null);
    CHECK(unspool_packets_read(NULL, &packet, 1, &count) == null);
    CHECK(unspool_packets_text(NULL, 0, &text) == null);
    CHECK(unspool_steps_next(NULL, &step) == null && step == NULL);

    CHECK(unspool_instructions_open(trace, &instructions) == UNSPOOL_STATUS_OK);
    count = 7;
    CHECK(unspool_instructions_read(instructions, NULL, 1, &count) == null && count == 0);
    CHECK(unspool_instructions_read(instructions, &instruction, 1, NULL) == null);
    CHECK(unspool_instructions_read(instructions, &instruction, 0, &count) == UNSPOOL_STATUS_INVALID_ARGUMENT);
    CHECK(unspool_instructions_read(instructions, &instruction, (size_t)-1, &count) == UNSPOOL_STATUS_INVALID_ARGUMENT);
    /* A wrong call takes nothing from the iterator. */
    CHECK(unspool_instructions_read(instructions, &instruction, 1, &count) == UNSPOOL_STATUS_OK && count == 1);
    CHECK(instruction.follows_gap && instruction.instruction.address == 0x4001b0);

    unspool_trace_free(NULL);
    unspool_instructions_free(NULL);
    unspool_blocks_free(NULL);
    unspool_packets_free(NULL);
    unspool_steps_free(NULL);
    /* Not read to its end. */
    unspool_instructions_free(instructions);
    unspool_trace_free(trace);
}

static void what_cannot_be_opened(const char *examples) {
    UnspoolTrace *trace = NULL;
    UnspoolPackets *packets = NULL;
    CHECK(unspool_open(example(examples, "absent"), &trace) == UNSPOOL_STATUS_NOT_FOUND && trace == NULL);
    CHECK(strstr(unspool_error_message(), "absent") != NULL);
    CHECK(unspool_open("\xff\xfe", &trace) == UNSPOOL_STATUS_NOT_FOUND);
    CHECK(unspool_open("", &trace) == UNSPOOL_STATUS_NOT_FOUND);
    CHECK(unspool_open(example(examples, "hello-qemu/hello"), &trace) == UNSPOOL_STATUS_WRONG_KIND);
    CHECK(unspool_open_buffer(example(examples, "hello-qemu/trace_0.bin"), "\xff", &trace) == UNSPOOL_STATUS_INVALID_TEXT);
    CHECK(unspool_open_buffer(example(examples, "absent"), "ete", &trace) == UNSPOOL_STATUS_NOT_FOUND);

    trace = open_trace(example(examples, "example.astf"));
    CHECK(unspool_packets_open(trace, &packets) == UNSPOOL_STATUS_WRONG_KIND && packets == NULL);
    CHECK(strstr(unspool_error_message(), "this is an ASTF file, not a capture") != NULL);
    CHECK(unspool_trace_select_source(trace, "ETE_0") == UNSPOOL_STATUS_WRONG_KIND);
    CHECK(unspool_trace_add_image(trace, example(examples, "example.astf")) != UNSPOOL_STATUS_OK);
    unspool_trace_free(trace);
}

static void sources(const char *examples) {
    UnspoolTrace *trace = open_trace(example(examples, "hello-ete"));
    UnspoolInstructions *instructions;
    UnspoolExecutedInstruction instruction;
    UnspoolKind kind;
    UnspoolText name;
    size_t count;
    CHECK(unspool_trace_kind(trace, &kind) == UNSPOOL_STATUS_OK && kind == UNSPOOL_KIND_CAPTURE);
    CHECK(unspool_trace_source_count(trace, &count) == UNSPOOL_STATUS_OK && count == 2);
    CHECK(unspool_trace_source_name(trace, 1, &name) == UNSPOOL_STATUS_OK && is(name, "ETE_1"));
    CHECK(unspool_trace_source_name(trace, 2, &name) == UNSPOOL_STATUS_INVALID_ARGUMENT && name.data == NULL);
    CHECK(unspool_trace_select_source(trace, "ETE_7") == UNSPOOL_STATUS_NO_SOURCE);
    CHECK(unspool_trace_select_source(trace, "\xff") == UNSPOOL_STATUS_INVALID_TEXT);
    CHECK(unspool_trace_select_source(trace, "ETE_1") == UNSPOOL_STATUS_OK);
    CHECK(unspool_instructions_open(trace, &instructions) == UNSPOOL_STATUS_OK);
    CHECK(unspool_instructions_read(instructions, &instruction, 1, &count) == UNSPOOL_STATUS_OK);
    CHECK(instruction.core == 1 && instruction.instruction.address == 0x400000);
    CHECK(instruction.instruction.known & UNSPOOL_KNOWN_OPCODE);
    CHECK(instruction.instruction.opcode == 0xd2800060);
    unspool_instructions_free(instructions);
    unspool_trace_free(trace);
}

static void functions(const char *examples) {
    UnspoolTrace *trace = open_trace(example(examples, "sum.tarmac"));
    UnspoolText name;
    CHECK(unspool_trace_function(trace, 0x4001b0, &name) == UNSPOOL_STATUS_ABSENT && name.data == NULL);
    CHECK(unspool_trace_add_image(trace, example(examples, "absent")) == UNSPOOL_STATUS_NOT_FOUND);
    CHECK(unspool_trace_add_image(trace, example(examples, "hello-qemu/hello")) == UNSPOOL_STATUS_OK);
    CHECK(unspool_trace_function(trace, 0x4001b0, &name) == UNSPOOL_STATUS_OK && is(name, "_start"));
    unspool_trace_free(trace);
}

static void packets(const char *examples) {
    UnspoolTrace *trace = NULL;
    UnspoolPackets *packets;
    UnspoolPacket batch[4];
    UnspoolText text;
    size_t count, total = 0;
    const char *buffer = example(examples, "hello-qemu/trace_0.bin");
    CHECK(unspool_open_buffer(buffer, "ete", &trace) == UNSPOOL_STATUS_OK);
    CHECK(unspool_packets_open(trace, &packets) == UNSPOOL_STATUS_OK);
    unspool_trace_free(trace);
    CHECK(unspool_packets_text(packets, 0, &text) == UNSPOOL_STATUS_INVALID_ARGUMENT);
    while (unspool_packets_read(packets, batch, 4, &count) == UNSPOOL_STATUS_OK) {
        for (size_t i = 0; i < count; i++, total++) {
            CHECK(unspool_packets_text(packets, i, &text) == UNSPOOL_STATUS_OK && text.data != NULL);
            CHECK(batch[i].is_malformed == (batch[i].kind.data == NULL));
            if (total == 3)
                CHECK(is(batch[i].kind, "address_context_32_is0") && batch[i].offset == 0x12 && batch[i].length == 6);
            if (total == 4)
                CHECK(is(text, "atoms E"));
        }
        CHECK(unspool_packets_text(packets, count, &text) == UNSPOOL_STATUS_INVALID_ARGUMENT);
    }
    CHECK(total > 20);
    unspool_packets_free(packets);
}

/* Accesses and register writes of a log. */
static void steps(const char *examples) {
    UnspoolTrace *trace = open_trace(example(examples, "sum.tarmac"));
    UnspoolSteps *steps;
    const UnspoolStep *step;
    size_t instructions = 0, stores = 0, writes = 0;
    CHECK(unspool_steps_open(trace, &steps) == UNSPOOL_STATUS_OK);
    unspool_trace_free(trace);
    while (unspool_steps_next(steps, &step) == UNSPOOL_STATUS_OK) {
        instructions += step->event == UNSPOOL_EVENT_INSTRUCTION;
        CHECK(step->known & UNSPOOL_KNOWN_TIME);
        for (size_t i = 0; i < step->access_count; i++) {
            const UnspoolAccess *access = &step->accesses[i];
            if (access->direction == UNSPOOL_DIRECTION_WRITE && access->address == 0x10ff0) {
                stores++;
                CHECK(access->length == 8 && access->bytes[0] == (stores == 1 ? 3 : 12) && access->bytes[1] == 0);
                CHECK(access->known_bits[0] == 0xff);
            }
        }
        for (size_t i = 0; i < step->register_count; i++) {
            const UnspoolRegisterWrite *write = &step->registers[i];
            CHECK(write->name.length > 0 && write->length > 0 && write->bytes != NULL);
            writes += is(write->name, "x30") && write->bytes[0] == 0x14 && write->bytes[1] == 0x80;
        }
    }
    CHECK(step == NULL);
    CHECK(instructions == 8 && stores == 2 && writes == 1);
    CHECK(unspool_steps_next(steps, &step) == UNSPOOL_STATUS_END);
    unspool_steps_free(steps);
}

/* Frames that cannot be read are an error in the sequence of items: what follows is read. */
static void lost_frames(const char *path) {
    UnspoolTrace *trace = open_trace(path);
    UnspoolPackets *packets;
    UnspoolPacket batch[64];
    size_t count, after = 0, errors = 0;
    UnspoolStatus status;
    CHECK(unspool_packets_open(trace, &packets) == UNSPOOL_STATUS_OK);
    while ((status = unspool_packets_read(packets, batch, 64, &count)) != UNSPOOL_STATUS_END) {
        CHECK(status == UNSPOOL_STATUS_OK || status == UNSPOOL_STATUS_DAMAGED);
        CHECK((status == UNSPOOL_STATUS_OK) == (count > 0));
        errors += status == UNSPOOL_STATUS_DAMAGED;
        after += errors ? count : 0;
    }
    CHECK(errors > 0 && after > 0);
    unspool_packets_free(packets);
    unspool_trace_free(trace);
}

/* A file that ends in a record has all steps before it, and an error that names the place. */
static void truncated(const char *path) {
    UnspoolTrace *trace = open_trace(path);
    UnspoolSteps *steps;
    const UnspoolStep *step;
    size_t count = 0;
    UnspoolStatus status;
    CHECK(unspool_steps_open(trace, &steps) == UNSPOOL_STATUS_OK);
    unspool_trace_free(trace);
    while ((status = unspool_steps_next(steps, &step)) == UNSPOOL_STATUS_OK)
        count++;
    CHECK(status == UNSPOOL_STATUS_DAMAGED && count > 0 && step == NULL);
    CHECK(strstr(unspool_error_message(), "0x") != NULL);
    CHECK(unspool_steps_next(steps, &step) == UNSPOOL_STATUS_END);
    unspool_steps_free(steps);
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: interface EXAMPLES LOST-FRAMES TRUNCATED\n");
        return 2;
    }
    CHECK(strcmp(unspool_error_message(), "") == 0);
    CHECK(strlen(unspool_version()) >= 5);
    null_arguments(argv[1]);
    what_cannot_be_opened(argv[1]);
    sources(argv[1]);
    functions(argv[1]);
    packets(argv[1]);
    steps(argv[1]);
    lost_frames(argv[2]);
    truncated(argv[3]);
    printf("interface: %d checks passed\n", checks);
    return 0;
}
