//! Split debug information: functions of a unit that are in another file.
//!
//! skeleton unit ─▶ package of the program (`PROGRAM.dwp`), or the object file that the unit names (`.dwo`) ─▶ its entries
//!
//! The names of files come from the program, so only regular files are read, up to a limit, and one is used only if it has the
//! number (DWO id) that the unit expects. The rows of the unit stay in the program.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use gimli::{
    Dwarf, DwarfFileType, DwarfPackageSections, DwarfSections, DwoId, EndianSlice, RunTimeEndian, SectionId, Unit,
};
use unspool_capture::{Bytes, ElfSections};

use super::dwarf::{Slice, borrow, load_section};
use super::unit::push_path;

/// Maximum size of a file with a part of the debug information.
const FILE_LIMIT: u64 = 2 << 30;

/// Where the other files of a program are.
pub(super) struct SplitFiles {
    program: PathBuf,
    /// The package beside the program, once it was looked for.
    package: Option<Option<(DwarfPackageSections<Bytes>, RunTimeEndian)>>,
}

/// The other file of a unit.
pub(super) enum SplitFile<'s> {
    Object(Box<DwarfSections<Bytes>>, RunTimeEndian, DwoId),
    Package(&'s DwarfPackageSections<Bytes>, RunTimeEndian, DwoId),
}

impl SplitFiles {
    /// The files of the program with this name.
    pub(super) fn new(program: &str) -> Self {
        Self { program: program.into(), package: None }
    }

    /// The file with the entries of a unit; `None` if they are in the unit itself, or if the file is not found.
    pub(super) fn load(&mut self, dwarf: &Dwarf<Slice<'_>>, unit: &Unit<Slice<'_>>) -> Option<SplitFile<'_>> {
        let id = unit.dwo_id?;
        let name = unit.dwo_name().ok().flatten().and_then(|value| dwarf.attr_string(unit, value).ok());
        let folder = unit.comp_dir.map(|folder| folder.to_string_lossy().into_owned());
        let Self { program, package } = self;
        let package = package.get_or_insert_with(|| open_package(&with_suffix(program, ".dwp")));
        if let Some((sections, endian)) = package {
            let empty = EndianSlice::new(&[], *endian);
            let opened = sections.borrow(|bytes| EndianSlice::new(bytes, *endian), empty).ok();
            if opened.is_some_and(|opened| opened.cu_index.find(id.0).is_some()) {
                return Some(SplitFile::Package(sections, *endian, id));
            }
        }
        let name = name?.to_string_lossy().into_owned();
        let mut path = folder.unwrap_or_default();
        push_path(&mut path, &name);
        let beside = program.parent().unwrap_or(Path::new(""));
        let mut candidates = vec![PathBuf::from(path), beside.join(&name)];
        candidates.extend(Path::new(&name).file_name().map(|file| beside.join(file)));
        let (sections, endian) = candidates.iter().find_map(|path| open_object(path))?;
        Some(SplitFile::Object(Box::new(sections), endian, id))
    }
}

impl SplitFile<'_> {
    /// Passes on the unit that belongs to a skeleton. Returns the first problem.
    pub(super) fn each_unit(
        &self,
        parent: &Dwarf<Slice<'_>>,
        skeleton: &Unit<Slice<'_>>,
        mut take: impl FnMut(&Dwarf<Slice<'_>>, &Unit<Slice<'_>>) -> Result<(), gimli::Error>,
    ) -> Option<gimli::Error> {
        let mut read = || match self {
            Self::Object(sections, endian, id) => {
                let mut dwarf = borrow(sections, *endian);
                dwarf.make_dwo(parent);
                dwarf.file_type = DwarfFileType::Dwo;
                with_unit(&dwarf, skeleton, *id, &mut take)
            }
            Self::Package(sections, endian, id) => {
                let empty = EndianSlice::new(&[], *endian);
                let package = sections.borrow(|bytes| EndianSlice::new(bytes, *endian), empty)?;
                match package.find_cu(*id, parent)? {
                    Some(dwarf) => with_unit(&dwarf, skeleton, *id, &mut take),
                    None => Ok(()),
                }
            }
        };
        read().err()
    }
}

fn with_unit<'a>(
    dwarf: &Dwarf<Slice<'a>>,
    skeleton: &Unit<Slice<'a>>,
    id: DwoId,
    take: &mut impl FnMut(&Dwarf<Slice<'_>>, &Unit<Slice<'_>>) -> Result<(), gimli::Error>,
) -> Result<(), gimli::Error> {
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        let mut unit = dwarf.unit(header)?;
        if unit.dwo_id == Some(id) {
            unit.copy_relocated_attributes(skeleton);
            return take(dwarf, &unit);
        }
    }
    Ok(())
}

fn open_object(path: &Path) -> Option<(DwarfSections<Bytes>, RunTimeEndian)> {
    let (file, endian) = open(path)?;
    let load = |id: SectionId| Ok::<Bytes, gimli::Error>(load_section(&file, id, id.dwo_name()));
    Some((DwarfSections::load(load).ok()?, endian))
}

fn open_package(path: &Path) -> Option<(DwarfPackageSections<Bytes>, RunTimeEndian)> {
    let (file, endian) = open(path)?;
    // The index has a part of every section for each unit, so all have to be there.
    let section = |id: SectionId| id.dwo_name().and_then(|name| file.section(name)).unwrap_or_default();
    let load = |id: SectionId| Ok::<Bytes, gimli::Error>(section(id));
    Some((DwarfPackageSections::load(load).ok()?, endian))
}

fn open(path: &Path) -> Option<(ElfSections, RunTimeEndian)> {
    let about = fs::metadata(path).ok().filter(|about| about.is_file() && about.len() <= FILE_LIMIT)?;
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(about.len()).read_to_end(&mut bytes).ok()?;
    let file = ElfSections::new(&bytes.into())?;
    let endian = if file.is_big_endian() { RunTimeEndian::Big } else { RunTimeEndian::Little };
    Some((file, endian))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    name.into()
}
