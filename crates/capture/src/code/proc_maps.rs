//! `/proc/PID/maps`: the files in the memory of a process.
//!
//! lines `start-end permissions offset device inode path` ─▶ **proc_maps** ─▶ [`SystemEvent`]s
//!
//! Only executable mappings become events. Executable memory without a file is noted, because its code has to come from
//! elsewhere (a jitdump, a dump of memory). The text does not contain the number of the process: the caller gives it.

use super::lines::{BadField, Fields, NoteList, each_line};
use crate::event::{Call, Mapping, Pid, Placement, State, SystemEvent};
use crate::note::{Note, NoteKind};

/// Executable memory of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcMaps {
    /// One [`Call::Library`] for each executable mapping of a file, in the order of the text. Also for `[vdso]`.
    pub events: Vec<SystemEvent>,
    /// Bad lines, executable memory without a file, and deleted files.
    pub notes: Vec<Note>,
}

/// One line.
struct Area<'t> {
    start: u64,
    end: u64,
    is_executable: bool,
    offset: u64,
    name: &'t str,
}

impl ProcMaps {
    /// Reads the text of the maps of a process. `file` is the name that notes show.
    pub fn parse(file: &str, text: &[u8], pid: Pid) -> Self {
        let (mut notes, mut events) = (NoteList::new(file), Vec::new());
        each_line(text, &mut notes, |line, notes| {
            let area = Area::parse(line.text)?;
            if !area.is_executable {
                return Ok(());
            }
            let range = format!("{:#x}-{:#x}", area.start, area.end - 1);
            let Some(name) = area.file_name() else {
                let name = if area.name.is_empty() { String::new() } else { format!(" ({})", area.name) };
                let text = || format!("executable memory without a file at {range}{name}: its code is not known");
                notes.add(line.number, NoteKind::MissingFile, text);
                return Ok(());
            };
            let (image, deleted) = match name.strip_suffix(" (deleted)") {
                Some(name) => (name, true),
                None => (name, false),
            };
            if deleted {
                let text = || format!("`{image}` at {range} was deleted: a file of this name may be another one");
                notes.add(line.number, NoteKind::Assumed, text);
            }
            events.push(area.event(image, line.number as u64, pid));
            Ok(())
        });
        Self { events, notes: notes.finish() }
    }
}

impl<'t> Area<'t> {
    fn parse(line: &'t str) -> Result<Self, BadField> {
        let mut fields = Fields::new(line);
        let range = fields.next("the address range")?;
        let ends = range.text.split_once('-');
        let (start, end) = ends.ok_or_else(|| range.bad("an address range START-END"))?;
        let hex = |text: &str, at: usize| {
            super::lines::Field { column: range.column + at, text: text.trim_start() }.hex("a hexadecimal address")
        };
        let (start, end) = (hex(start, 0)?, hex(end, start.len() + 1)?);
        if start >= end {
            return Err(range.bad("a range whose end is after its start"));
        }
        let permissions = fields.next("the permissions")?;
        let &[_, _, execute, _] = permissions.text.as_bytes() else {
            return Err(permissions.bad("four permissions, such as r-xp"));
        };
        let offset = fields.next("the offset")?.hex("a hexadecimal offset")?;
        fields.next("the device")?;
        fields.next("the inode")?;
        let name = fields.peek().text;
        Ok(Self { start, end, is_executable: execute == b'x', offset, name })
    }

    /// The name of a file, or `[vdso]`; `None` for memory that no file has.
    fn file_name(&self) -> Option<&'t str> {
        /// Names of memory that looks like files.
        const ANONYMOUS: [&str; 5] = ["//anon", "/memfd:", "/dev/zero", "/dev/ashmem/", "/SYSV"];
        let is_file = self.name.starts_with('/') && !ANONYMOUS.iter().any(|prefix| self.name.starts_with(prefix));
        (is_file || self.name == "[vdso]").then_some(self.name)
    }

    fn event(&self, image: &str, place: u64, pid: Pid) -> SystemEvent {
        let placement = Placement::Part { address: self.start, length: self.end - self.start, offset: self.offset };
        // The kernel escapes line breaks in names, and nothing else.
        let image = image.replace("\\012", "\n");
        let mapping = Mapping { image, build_id: String::new(), placement };
        SystemEvent { time: None, place, call: Call::Library { state: State::Current, pid, mapping } }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn describe(event: &SystemEvent) -> String {
        let Call::Library { state: State::Current, pid, mapping } = &event.call else { panic!("{event:?}") };
        let Placement::Part { address, length, offset } = mapping.placement else { panic!("{mapping:?}") };
        format!("{}: {pid} {} {address:#x}+{length:#x} at {offset:#x}", event.place, mapping.image)
    }

    #[test]
    fn executable_files_are_libraries() {
        let text = "\
aaaac0000000-aaaac0001000 r--p 00000000 b3:02 1234                       /usr/bin/app
aaaac0001000-aaaac0003000 r-xp 00001000 b3:02 1234                       /usr/bin/app
aaaad0000000-aaaad0021000 rw-p 00000000 00:00 0                          [heap]
ffff80000000-ffff80010000 rwxp 00000000 00:00 0 
ffff81000000-ffff81001000 --xp 00000000 b3:02 99                         /opt/my app/lib\\012x.so (deleted)
ffff82000000-ffff82001000 r-xs 00002000 00:01 7                          /memfd:jit (deleted)
ffff83000000-ffff83001000 r-xp 00000000 00:00 0                          [vdso]
ffff84000000-ffff84001000 r-xp 00000000 00:00 0                          [anon:dalvik-jit-code-cache]
";
        let maps = ProcMaps::parse("maps", text.as_bytes(), 312);
        let events: Vec<String> = maps.events.iter().map(describe).collect();
        let expected = [
            "2: 312 /usr/bin/app 0xaaaac0001000+0x2000 at 0x1000",
            "5: 312 /opt/my app/lib\nx.so 0xffff81000000+0x1000 at 0x0",
            "7: 312 [vdso] 0xffff83000000+0x1000 at 0x0",
        ];
        assert_eq!(events, expected);
        let notes: Vec<String> = maps.notes.iter().map(ToString::to_string).collect();
        let unknown = "its code is not known";
        let expected = [
            format!("maps:4: executable memory without a file at 0xffff80000000-0xffff8000ffff: {unknown}"),
            "maps:5: `/opt/my app/lib\\012x.so` at 0xffff81000000-0xffff81000fff was deleted: a file of this name may be \
             another one"
                .to_string(),
            format!("maps:6: executable memory without a file at 0xffff82000000-0xffff82000fff (/memfd:jit (deleted)): {unknown}"),
            format!(
                "maps:8: executable memory without a file at 0xffff84000000-0xffff84000fff ([anon:dalvik-jit-code-cache]): \
                 {unknown}"
            ),
        ];
        assert_eq!(notes, expected);
    }

    #[test]
    fn bad_lines_have_a_column() {
        let rows = [
            ("1000 r-xp 0 0:0 0 /a", "column 1: `1000` is not an address range START-END"),
            ("1000-20g0 r-xp 0 0:0 0 /a", "column 6: `20g0` is not a hexadecimal address"),
            ("-1000 r-xp 0 0:0 0 /a", "column 1: `` is not a hexadecimal address"),
            ("2000-2000 r-xp 0 0:0 0 /a", "column 1: `2000-2000` is not a range whose end is after its start"),
            ("1000-2000 rx 0 0:0 0 /a", "column 11: `rx` is not four permissions, such as r-xp"),
            ("1000-2000 r-xp q 0:0 0 /a", "column 16: `q` is not a hexadecimal offset"),
            ("1000-2000 r-xp 0 0:0", "column 21: the line ends before the inode"),
        ];
        for (line, expected) in rows {
            let maps = ProcMaps::parse("m", format!("{line}\n1-2 r-xp 0 0:0 1 /b\n").as_bytes(), 1);
            assert_eq!(maps.notes[0].to_string(), format!("m:1: {expected}"), "{line}");
            assert_eq!(maps.events.iter().map(describe).collect::<Vec<_>>(), ["2: 1 /b 0x1+0x1 at 0x0"], "{line}");
        }
    }

    /// The maps of this very process have the test program in them.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_maps_of_this_process() {
        let maps = ProcMaps::parse("maps", &std::fs::read("/proc/self/maps").unwrap(), 1);
        let program = std::env::current_exe().unwrap().canonicalize().unwrap();
        let here = the_maps_of_this_process as fn() as usize as u64;
        let holds_us = maps.events.iter().any(|event| {
            let Call::Library { mapping, .. } = &event.call else { return false };
            let Placement::Part { address, length, .. } = mapping.placement else { return false };
            mapping.image == program.to_str().unwrap() && (address..address + length).contains(&here)
        });
        assert!(holds_us, "{maps:?}");
    }

    proptest! {
        #[test]
        fn any_text(text in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b' '), Just(b'-'), Just(b'x'), any::<u8>()], 0..300)) {
            let maps = ProcMaps::parse("m", &text, 1);
            prop_assert!(maps.notes.len() <= 101);
        }

        /// What is printed in the form of the kernel is read.
        #[test]
        fn any_mapping(start: u64, length in 1_u64..1 << 40, offset: u64, name in "/[a-z ]{0,20}[a-z]") {
            let start = start.min(u64::MAX - length);
            let line = format!("{start:x}-{:x} r-xp {offset:08x} 08:01 42 {name}\n", start + length);
            let maps = ProcMaps::parse("m", line.as_bytes(), 9);
            let expected = format!("1: 9 {name} {start:#x}+{length:#x} at {offset:#x}");
            prop_assert_eq!(maps.events.iter().map(describe).collect::<Vec<_>>(), [expected]);
        }
    }
}
