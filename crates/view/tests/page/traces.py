"""Tarmac logs for the tests: a loop of calls with registers, memory accesses and times."""

from pathlib import Path

MAIN, LEAF = 0x8000, 0x8100


class Log:
    """Lines of a Tarmac log, one clock cycle per instruction."""

    def __init__(self):
        self.lines = []
        self.instructions = 0

    def instruction(self, address, opcode, text, *effects):
        clock = self.instructions
        self.instructions += 1
        self.lines.append(f"{clock} clk IT ({self.instructions}) {address:08x} {opcode:08x} O EL1h_n : {text}")
        self.lines += [f"{clock} clk {effect}" for effect in effects]

    def register(self, name, value):
        return f"R {name} {value:016x}"


def write_loop(path: Path, rounds: int, round_without_store: int = -1) -> Path:
    """A log of `rounds` calls of a leaf function; in one of them the store can be left out, which makes a difference."""
    log = Log()
    log.instruction(MAIN, 0xD2800000, "MOV      x0,#0", log.register("X0", 0))
    for i in range(rounds):
        log.instruction(MAIN + 4, 0x94000000 | (LEAF - MAIN - 4) // 4, f"BL       {LEAF:#x}", log.register("X30", MAIN + 8))
        log.instruction(LEAF, 0x91000400, "ADD      x0,x0,#1", log.register("X0", i + 1))
        value = f"{i:016x}"
        if i != round_without_store:
            log.instruction(LEAF + 4, 0xF9000020, "STR      x0,[x1]", f"MW8 {0x10000 + i % 64 * 8:08x} {value[:8]}_{value[8:]}")
        log.instruction(LEAF + 8, 0xD65F03C0, "RET")
        log.instruction(MAIN + 8, 0x17FFFFFF, f"B        {MAIN + 4:#x}")
    path.write_text("\n".join(log.lines) + "\n")
    return path
