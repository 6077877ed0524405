/* Runs the reference decoder over one buffer and returns how many packets it found. */
#include <opencsd/c_api/opencsd_c_api.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

struct unit {
    uint32_t id, configr, idr0, idr1, idr2, idr8;
};

struct older_unit {
    uint32_t kind, id, control, identification, extension;
};

static uint64_t packets;
static uint64_t ranges, instructions;

static ocsd_datapath_resp_t count(const void *context, const ocsd_datapath_op_t op, const ocsd_trc_index_t index,
                                  const void *packet)
{
    (void)context, (void)index, (void)packet;
    packets += op == OCSD_OP_DATA;
    return OCSD_RESP_CONT;
}

static int add_unit(dcd_tree_handle_t tree, const struct unit *unit, int what)
{
    ocsd_etmv4_cfg config;
    memset(&config, 0, sizeof config);
    config.reg_traceidr = unit->id;
    config.reg_configr = unit->configr;
    config.reg_idr0 = unit->idr0;
    config.reg_idr1 = unit->idr1;
    config.reg_idr2 = unit->idr2;
    config.reg_idr8 = unit->idr8;
    config.arch_ver = ARCH_V8;
    config.core_prof = profile_CortexA;
    unsigned char id;
    if (ocsd_dt_create_decoder(tree, OCSD_BUILTIN_DCD_ETMV4I, what, &config, &id) != OCSD_OK)
        return -1;
    if (what == OCSD_CREATE_FLG_FULL_DECODER)
        return 0;
    return ocsd_dt_attach_packet_callback(tree, id, OCSD_C_API_CB_PKT_SINK, count, 0) == OCSD_OK ? 0 : -1;
}

static ocsd_datapath_resp_t count_element(const void *context, const ocsd_trc_index_t index, const uint8_t id,
                                          const ocsd_generic_trace_elem *element)
{
    (void)context, (void)index, (void)id;
    if (element->elem_type == OCSD_GEN_TRC_ELEM_INSTR_RANGE) {
        ranges++;
        instructions += element->num_instr_range;
    }
    return OCSD_RESP_CONT;
}

struct image {
    uint64_t address;
    const uint8_t *bytes;
    uint32_t length;
};

/* Hands a buffer to the tree, to its end. */
static int run(dcd_tree_handle_t tree, const uint8_t *bytes, uint32_t length)
{
    uint32_t offset = 0, used = 0;
    while (offset < length) {
        used = 0;
        int answer = ocsd_dt_process_data(tree, OCSD_OP_DATA, offset, length - offset, bytes + offset, &used);
        if (answer >= OCSD_RESP_FATAL_NOT_INIT || used == 0)
            return -1;
        offset += used;
    }
    ocsd_dt_process_data(tree, OCSD_OP_EOT, 0, 0, 0, &used);
    return 0;
}

/* Full decode of frames or of one stream, with images in memory. Returns how many instructions were executed. */
int64_t reference_ranges(const uint8_t *bytes, uint32_t length, int formatted, const struct unit *units,
                         uint32_t count_of_units, const struct image *images, uint32_t count_of_images)
{
    dcd_tree_handle_t tree = ocsd_create_dcd_tree(formatted ? OCSD_TRC_SRC_FRAME_FORMATTED : OCSD_TRC_SRC_SINGLE,
                                                  OCSD_DFRMTR_FRAME_MEM_ALIGN);
    ranges = instructions = 0;
    for (uint32_t i = 0; i < count_of_units; i++)
        if (add_unit(tree, &units[i], OCSD_CREATE_FLG_FULL_DECODER) != 0)
            return -1;
    for (uint32_t i = 0; i < count_of_images; i++)
        if (ocsd_dt_add_buffer_mem_acc(tree, images[i].address, OCSD_MEM_SPACE_ANY, images[i].bytes, images[i].length) != OCSD_OK)
            return -1;
    ocsd_dt_set_gen_elem_outfn(tree, count_element, 0);
    int failed = run(tree, bytes, length);
    ocsd_destroy_dcd_tree(tree);
    return failed ? -1 : (int64_t)instructions;
}

/* formatted: frames of many sources; otherwise the plain stream of units[0]. No unit: frames are only taken apart. */
int64_t reference_packets(const uint8_t *bytes, uint32_t length, int formatted, const struct unit *units, uint32_t count_of_units)
{
    dcd_tree_handle_t tree = ocsd_create_dcd_tree(formatted ? OCSD_TRC_SRC_FRAME_FORMATTED : OCSD_TRC_SRC_SINGLE,
                                                  OCSD_DFRMTR_FRAME_MEM_ALIGN);
    packets = 0;
    for (uint32_t i = 0; i < count_of_units; i++)
        if (add_unit(tree, &units[i], OCSD_CREATE_FLG_PACKET_PROC) != 0)
            return -1;
    int failed = run(tree, bytes, length);
    ocsd_destroy_dcd_tree(tree);
    return failed ? -1 : (int64_t)packets;
}

static const char *set_older(const struct older_unit *unit, ocsd_etmv3_cfg *etm3, ocsd_ptm_cfg *ptm, ocsd_stm_cfg *stm,
                             const void **config)
{
    memset(etm3, 0, sizeof *etm3);
    memset(ptm, 0, sizeof *ptm);
    memset(stm, 0, sizeof *stm);
    etm3->reg_idr = ptm->reg_idr = unit->identification;
    etm3->reg_ctrl = ptm->reg_ctrl = unit->control;
    etm3->reg_ccer = ptm->reg_ccer = unit->extension;
    etm3->reg_trc_id = ptm->reg_trc_id = unit->id;
    etm3->arch_ver = ptm->arch_ver = ARCH_V7;
    etm3->core_prof = ptm->core_prof = profile_CortexA;
    stm->reg_tcsr = unit->control;
    *config = unit->kind == 0 ? (const void *)etm3 : unit->kind == 1 ? (const void *)ptm : (const void *)stm;
    return unit->kind == 0 ? OCSD_BUILTIN_DCD_ETMV3 : unit->kind == 1 ? OCSD_BUILTIN_DCD_PTM : OCSD_BUILTIN_DCD_STM;
}

/* One stream of ETMv3, PTM or STM. Returns packets, or with full the executed instructions. */
int64_t reference_older(const uint8_t *bytes, uint32_t length, const struct older_unit *unit, int full,
                        const struct image *images, uint32_t count_of_images)
{
    dcd_tree_handle_t tree = ocsd_create_dcd_tree(OCSD_TRC_SRC_SINGLE, 0);
    ocsd_etmv3_cfg etm3;
    ocsd_ptm_cfg ptm;
    ocsd_stm_cfg stm;
    const void *config;
    const char *name = set_older(unit, &etm3, &ptm, &stm, &config);
    unsigned char id;
    packets = ranges = instructions = 0;
    int what = full ? OCSD_CREATE_FLG_FULL_DECODER : OCSD_CREATE_FLG_PACKET_PROC;
    if (ocsd_dt_create_decoder(tree, name, what, config, &id) != OCSD_OK)
        return -1;
    if (!full && ocsd_dt_attach_packet_callback(tree, id, OCSD_C_API_CB_PKT_SINK, count, 0) != OCSD_OK)
        return -1;
    for (uint32_t i = 0; i < count_of_images; i++)
        if (ocsd_dt_add_buffer_mem_acc(tree, images[i].address, OCSD_MEM_SPACE_ANY, images[i].bytes, images[i].length) != OCSD_OK)
            return -1;
    ocsd_dt_set_gen_elem_outfn(tree, count_element, 0);
    int failed = run(tree, bytes, length);
    ocsd_destroy_dcd_tree(tree);
    return failed ? -1 : (int64_t)(full ? instructions : packets);
}

/* Processor time of this thread in nanoseconds: unlike the time of day, it does not depend on what else the machine does. */
uint64_t thread_nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
