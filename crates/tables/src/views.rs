//! Views: questions that are asked often, as SQL over the tables.
//!
//! The SQL is that of DuckDB. A view exists where the tables that it needs are; `docs/queries.md` has an example for each.

use std::collections::BTreeSet;
use std::path::Path;

use crate::folder::TableFolder;
use crate::schema::Table;

/// A view, or a macro with parameters that is used like one.
#[derive(Debug, Clone, Copy)]
pub struct View {
    /// Its name.
    pub name: &'static str,
    /// Parameters of a macro, in parentheses; of a view, none.
    pub parameters: &'static str,
    /// What its rows are.
    pub about: &'static str,
    /// Tables and views that it is made of.
    needs: &'static [&'static str],
    sql: &'static str,
}

/// All views; each needs only views that come before it.
pub const VIEWS: &[View] = &[
    View {
        name: "executed",
        parameters: "",
        about: "blocks, with the names of their first instruction",
        needs: &["blocks", "instructions"],
        sql: "SELECT b.*, i.function, i.image, i.file, i.line FROM blocks b LEFT JOIN instructions i USING (code, address)",
    },
    View {
        name: "steps",
        parameters: "",
        about: "every executed instruction",
        needs: &["blocks", "instructions"],
        sql: "SELECT b.source, b.process, b.thread, b.sequence + n.k AS sequence, b.time, \
              i.address, i.size, i.isa, i.opcode, i.text, i.function, i.file, i.line, i.image, \
              CASE WHEN n.k = b.instructions - 1 THEN b.taken END AS taken \
              FROM blocks b JOIN instructions f USING (code, address), \
              LATERAL (SELECT unnest(range(b.instructions::BIGINT)) AS k) n \
              JOIN instructions i ON i.number = f.number + n.k",
    },
    View {
        name: "instruction_counts",
        parameters: "",
        about: "instructions of the code, with the number of their executions",
        needs: &["blocks", "instructions"],
        sql: "SELECT i.*, c.executions, c.taken, c.not_taken FROM instructions i JOIN ( \
              SELECT f.number + n.k AS number, sum(b.executions) AS executions, \
              sum(b.taken) FILTER (WHERE n.k = b.instructions - 1) AS taken, \
              sum(b.not_taken) FILTER (WHERE n.k = b.instructions - 1) AS not_taken \
              FROM (SELECT code, address, instructions, count(*) AS executions, \
              count(*) FILTER (WHERE taken) AS taken, count(*) FILTER (WHERE NOT taken) AS not_taken \
              FROM blocks GROUP BY ALL) b JOIN instructions f USING (code, address), \
              LATERAL (SELECT unnest(range(b.instructions::BIGINT)) AS k) n GROUP BY ALL) c USING (number)",
    },
    View {
        name: "hot_functions",
        parameters: "",
        about: "functions, with the number of instructions executed in them",
        needs: &["blocks", "instructions"],
        // Names are joined to sums, since there are far fewer of them than blocks.
        sql: "SELECT i.function, i.image, sum(b.executed)::BIGINT AS instructions FROM ( \
              SELECT code, address, sum(instructions) AS executed FROM blocks GROUP BY ALL) b \
              LEFT JOIN instructions i USING (code, address) GROUP BY ALL ORDER BY 3 DESC",
    },
    View {
        name: "hot_lines",
        parameters: "",
        about: "source lines, with the number of instructions executed for them",
        needs: &["instruction_counts"],
        sql: "SELECT file, line, sum(executions)::BIGINT AS instructions FROM instruction_counts GROUP BY ALL ORDER BY 3 DESC",
    },
    View {
        name: "line_coverage",
        parameters: "(source_file)",
        about: "executed lines of a source file, and how often the most frequent instruction of each was executed",
        needs: &["instruction_counts"],
        sql: "SELECT line, max(executions)::BIGINT AS executions FROM instruction_counts \
              WHERE file LIKE '%' || source_file AND line IS NOT NULL GROUP BY line ORDER BY line",
    },
    View {
        name: "hot_blocks",
        parameters: "",
        about: "straight-line code, with the number of its executions and of all their instructions",
        needs: &["blocks", "instructions"],
        sql: "SELECT b.address, i.function, b.instructions, b.executions, b.executions * b.instructions AS executed FROM ( \
              SELECT code, address, instructions, count(*) AS executions FROM blocks GROUP BY ALL) b \
              LEFT JOIN instructions i USING (code, address) ORDER BY executed DESC",
    },
    View {
        name: "instruction_mix",
        parameters: "",
        about: "mnemonics, with the number of their executions",
        needs: &["instruction_counts"],
        sql: "SELECT split_part(text, ' ', 1) AS mnemonic, sum(executions)::BIGINT AS executions \
              FROM instruction_counts GROUP BY ALL ORDER BY 2 DESC",
    },
    View {
        name: "branch_bias",
        parameters: "",
        about: "branches, with their outcomes; a bias of 0.5 is the worst",
        needs: &["instruction_counts"],
        sql: "SELECT address, function, text, taken::BIGINT AS taken, not_taken::BIGINT AS not_taken, \
              greatest(taken, not_taken) / (taken + not_taken) AS bias \
              FROM instruction_counts WHERE taken + not_taken > 0 ORDER BY least(taken, not_taken) DESC",
    },
    View {
        name: "mispredict_candidates",
        parameters: "",
        about: "branches, with the number of times that the outcome was not the one before",
        needs: &["blocks", "instructions"],
        sql: "SELECT i.address, i.function, i.text, count(*) AS executions, \
              count(*) FILTER (WHERE b.taken <> b.before) AS changes FROM ( \
              SELECT code, address, instructions, taken, \
              lag(taken) OVER (PARTITION BY source, code, address, instructions ORDER BY sequence) AS before \
              FROM blocks WHERE taken IS NOT NULL) b JOIN instructions f USING (code, address) \
              JOIN instructions i ON i.number = f.number + b.instructions - 1 GROUP BY ALL ORDER BY changes DESC",
    },
    View {
        name: "branch_targets",
        parameters: "",
        about: "taken branches by target",
        needs: &["blocks", "instructions"],
        sql: "SELECT i.address, i.function, i.text, b.target, count(*) AS executions FROM ( \
              SELECT source, code, address, instructions, taken, \
              lead(address) OVER (PARTITION BY source ORDER BY sequence) AS target FROM blocks) b \
              JOIN instructions f USING (code, address) \
              JOIN instructions i ON i.number = f.number + b.instructions - 1 \
              WHERE b.taken AND b.target IS NOT NULL GROUP BY ALL ORDER BY executions DESC",
    },
    View {
        name: "call_graph",
        parameters: "",
        about: "callers and callees, with the number of calls and of instructions in them",
        needs: &["calls"],
        sql: "SELECT caller, function AS callee, count(*) AS calls, sum(total_instructions)::BIGINT AS instructions \
              FROM calls WHERE began = 'called' GROUP BY ALL ORDER BY calls DESC",
    },
    View {
        name: "call_lengths",
        parameters: "",
        about: "functions, with the lengths of their complete calls in instructions",
        needs: &["calls"],
        sql: "SELECT function, count(*) AS calls, min(total_instructions) AS shortest, \
              median(total_instructions) AS median, max(total_instructions) AS longest \
              FROM calls WHERE began = 'called' AND ended = 'returned' AND NOT has_gap GROUP BY ALL ORDER BY calls DESC",
    },
    View {
        name: "longest_calls",
        parameters: "",
        about: "complete calls, the longest first",
        needs: &["calls"],
        sql: "SELECT source, thread, sequence, function, caller, total_instructions, end_time - time AS duration \
              FROM calls WHERE began = 'called' AND ended = 'returned' ORDER BY total_instructions DESC",
    },
    View {
        name: "time_between",
        parameters: "(first_function, second_function)",
        about: "from each call of a function to the next call of another one, on the same source",
        needs: &["calls"],
        sql: "SELECT a.source, a.sequence, b.sequence - a.sequence AS instructions, b.time - a.time AS duration \
              FROM (FROM calls WHERE function = first_function) a \
              ASOF JOIN (FROM calls WHERE function = second_function) b \
              ON a.source = b.source AND b.sequence >= a.sequence ORDER BY a.source, a.sequence",
    },
    View {
        name: "lock_hold_times",
        parameters: "(acquire, release)",
        about: "from the end of each call that acquires a lock to the next call of the thread that releases it",
        needs: &["calls"],
        sql: "SELECT a.source, a.thread, a.caller, a.sequence, b.sequence - a.end_sequence AS instructions, \
              b.time - a.end_time AS duration FROM (FROM calls WHERE function = acquire) a \
              ASOF JOIN (FROM calls WHERE function = release) b \
              ON a.source = b.source AND coalesce(a.thread, 0) = coalesce(b.thread, 0) \
              AND b.sequence >= a.end_sequence ORDER BY instructions DESC",
    },
    View {
        name: "exceptions",
        parameters: "",
        about: "exceptions, with the address that was interrupted and that of the handler",
        needs: &["events"],
        sql: "SELECT source, process, thread, sequence, time, name, text, address, target \
              FROM events WHERE kind = 'exception' ORDER BY source, sequence",
    },
    View {
        name: "interrupt_latency",
        parameters: "",
        about: "exceptions, with instructions and time until the next return from one",
        needs: &["events"],
        sql: "SELECT a.source, a.sequence, a.name, a.text, a.target AS handler, b.sequence - a.sequence AS instructions, \
              b.time - a.time AS duration FROM (FROM events WHERE kind = 'exception') a \
              ASOF JOIN (FROM events WHERE kind = 'exception_return') b \
              ON a.source = b.source AND b.sequence >= a.sequence ORDER BY instructions DESC",
    },
    View {
        name: "gaps",
        parameters: "",
        about: "where execution is missing, and why",
        needs: &["events"],
        sql: "SELECT source, sequence, time, position, name, address FROM events WHERE kind = 'gap' ORDER BY source, sequence",
    },
    View {
        name: "software_trace",
        parameters: "",
        about: "text and values of software trace",
        needs: &["events"],
        sql: "SELECT source, time, name, master, channel, text FROM events WHERE kind = 'software' ORDER BY source, position",
    },
    View {
        name: "processes",
        parameters: "",
        about: "processes and threads, with the number of their instructions",
        needs: &["blocks"],
        sql: "SELECT process, thread, sum(instructions)::BIGINT AS instructions, min(time) AS first_time, \
              max(time) AS last_time FROM blocks GROUP BY ALL ORDER BY instructions DESC",
    },
    View {
        name: "thread_switches",
        parameters: "",
        about: "where a core continues with another process or thread",
        needs: &["blocks"],
        sql: "SELECT source, sequence, time, process_before, thread_before, process, thread FROM ( \
              SELECT source, sequence, time, process, thread, lag(process) OVER w AS process_before, \
              lag(thread) OVER w AS thread_before, row_number() OVER w AS number FROM blocks \
              WINDOW w AS (PARTITION BY source ORDER BY sequence)) WHERE number > 1 AND \
              (process IS DISTINCT FROM process_before OR thread IS DISTINCT FROM thread_before) ORDER BY source, sequence",
    },
    View {
        name: "instructions_over_time",
        parameters: "(ticks)",
        about: "instructions of each source in each interval of time",
        needs: &["blocks"],
        sql: "SELECT source, (time // ticks) * ticks AS time, sum(instructions)::BIGINT AS instructions \
              FROM blocks WHERE time IS NOT NULL GROUP BY ALL ORDER BY source, time",
    },
    View {
        name: "hot_memory",
        parameters: "",
        about: "lines of 64 bytes of memory, with reads and writes",
        needs: &["accesses"],
        sql: "SELECT (address // 64) * 64 AS address, count(*) FILTER (WHERE direction IN ('read', 'both')) AS reads, \
              count(*) FILTER (WHERE direction IN ('write', 'both')) AS writes \
              FROM accesses GROUP BY ALL ORDER BY reads + writes DESC",
    },
    View {
        name: "shared_lines",
        parameters: "",
        about: "lines of 64 bytes that several sources access, and at least one of them writes",
        needs: &["accesses"],
        sql: "SELECT (address // 64) * 64 AS address, count(DISTINCT source) AS sources, \
              count(*) FILTER (WHERE direction IN ('read', 'both')) AS reads, \
              count(*) FILTER (WHERE direction IN ('write', 'both')) AS writes, count(DISTINCT address) AS addresses \
              FROM accesses GROUP BY ALL HAVING sources > 1 AND writes > 0 ORDER BY writes DESC",
    },
    View {
        name: "memory_by_function",
        parameters: "",
        about: "functions, with the bytes that they read and write",
        needs: &["accesses", "instructions"],
        sql: "SELECT i.function, sum(a.size) FILTER (WHERE direction IN ('read', 'both'))::BIGINT AS bytes_read, \
              sum(a.size) FILTER (WHERE direction IN ('write', 'both'))::BIGINT AS bytes_written, count(*) AS accesses \
              FROM accesses a JOIN (SELECT address, any_value(function) AS function FROM instructions GROUP BY address) i \
              ON i.address = a.instruction GROUP BY ALL ORDER BY accesses DESC",
    },
];

/// SQL that defines the tables of a folder, and all views of them.
pub fn of(folder: &TableFolder) -> String {
    let mut known: BTreeSet<&str> = BTreeSet::new();
    let mut sql = String::new();
    for table in Table::ALL.into_iter().filter(|table| folder.has(*table)) {
        let files = quoted(&folder.path().join(table.name()).join("*.parquet"));
        sql += &format!("CREATE VIEW {} AS FROM read_parquet({files});\n", table.name());
        known.insert(table.name());
    }
    for view in VIEWS {
        if view.needs.iter().all(|name| known.contains(name)) {
            let (kind, as_table) = if view.parameters.is_empty() { ("VIEW", "") } else { ("MACRO", "TABLE ") };
            sql += &format!("CREATE {kind} {}{} AS {as_table}{};\n", view.name, view.parameters, view.sql);
            known.insert(view.name);
        }
    }
    sql
}

/// The tables that a question is about: those that it names, and those of the views that it names.
pub fn tables_in(sql: &str) -> BTreeSet<Table> {
    let mut tables = BTreeSet::from([Table::Sources]);
    let sql = sql.to_ascii_lowercase();
    sql.split(|character: char| !character.is_ascii_alphanumeric() && character != '_')
        .for_each(|word| add_tables(word, &mut tables));
    tables
}

fn add_tables(word: &str, tables: &mut BTreeSet<Table>) {
    tables.extend(Table::named(word));
    let view = VIEWS.iter().find(|view| view.name == word);
    view.into_iter().flat_map(|view| view.needs).for_each(|name| add_tables(name, tables));
}

/// A path as text of SQL.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_need_what_comes_before_them() {
        let mut known: Vec<&str> = Table::ALL.iter().map(|table| table.name()).collect();
        for view in VIEWS {
            assert!(view.needs.iter().all(|name| known.contains(name)), "{}", view.name);
            assert!(!known.contains(&view.name), "{}", view.name);
            known.push(view.name);
        }
    }

    #[test]
    fn a_question_needs_the_tables_that_it_names() {
        let rows: [(&str, &[Table]); 5] = [
            ("SELECT 1", &[Table::Sources]),
            ("select * from BLOCKS b", &[Table::Sources, Table::Blocks]),
            ("FROM hot_functions", &[Table::Sources, Table::Blocks, Table::Instructions]),
            ("FROM time_between('a','b')", &[Table::Sources, Table::Calls]),
            ("FROM my_blocks", &[Table::Sources]),
        ];
        for (sql, tables) in rows {
            assert_eq!(tables_in(sql), tables.iter().copied().collect(), "{sql}");
        }
    }
}
