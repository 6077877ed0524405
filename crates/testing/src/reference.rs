//! The reference decoder: OpenCSD's packet lister as a child process.

use std::path::Path;
use std::process::Command;

use crate::tool;

/// The log of `trc_pkt_lister` for a snapshot folder, with further options such as `-decode`; `None`: skipped.
///
/// The lister writes files where it runs, so that it runs in a temporary folder.
#[track_caller]
#[must_use]
pub fn reference_listing(snapshot: &Path, options: &[&str]) -> Option<String> {
    let lister = tool("trc_pkt_lister", "libopencsd-bin")?;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = folder.path().join("log.txt");
    let mut command = Command::new(lister);
    command.current_dir(&folder).arg("-ss_dir").arg(snapshot).args(options).arg("-logfilename").arg(&log);
    command.output().expect("the lister runs");
    let listing = std::fs::read(&log).expect("the lister writes its log");
    Some(String::from_utf8_lossy(&listing).into_owned())
}
