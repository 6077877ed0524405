//! Image arguments of the command line: `FILE[@ADDRESS]`.

use std::path::PathBuf;
use std::str::FromStr;

use crate::error::Error;
use crate::ini::number;

/// An image file and its optional load address.
///
/// The text after the last `@` is the address, hexadecimal with `0x` or decimal. If it is not a number, the whole text
/// is the file name. A file name that ends like an address needs a trailing `@`: `core@7@`.
///
/// ```
/// use unspool_capture::ImageArgument;
/// let image: ImageArgument = "lib.so@0x7f8e446000".parse()?;
/// assert_eq!((image.path.to_str(), image.address), (Some("lib.so"), Some(0x7f_8e44_6000)));
/// # Ok::<(), unspool_capture::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageArgument {
    /// The file.
    pub path: PathBuf,
    /// Address of its first byte, or of the lowest page of an ELF file.
    pub address: Option<u64>,
}

impl FromStr for ImageArgument {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (path, address) = match text.rsplit_once('@') {
            Some((path, "")) => (path, None),
            Some((path, suffix)) => number(suffix).map_or((text, None), |address| (path, Some(address))),
            None => (text, None),
        };
        if path.is_empty() {
            return Err(Error::Unusable { name: text.to_string(), reason: "names no image file".to_string() });
        }
        Ok(Self { path: path.into(), address })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_and_address() {
        let rows = [
            ("vmlinux", Some(("vmlinux", None))),
            ("a/b.bin@0x80000", Some(("a/b.bin", Some(0x80000)))),
            ("b.bin@4096", Some(("b.bin", Some(4096)))),
            ("b.bin@0xFFFFFFC000081000", Some(("b.bin", Some(0xffff_ffc0_0008_1000)))),
            ("user@host/b.bin", Some(("user@host/b.bin", None))),
            ("user@host/b.bin@0x10", Some(("user@host/b.bin", Some(0x10)))),
            ("libc@2.31.so", Some(("libc@2.31.so", None))),
            ("b.bin@0xzz", Some(("b.bin@0xzz", None))),
            ("b.bin@0x10000000000000000", Some(("b.bin@0x10000000000000000", None))),
            ("core@7@", Some(("core@7", None))),
            ("core@7@0x10", Some(("core@7", Some(0x10)))),
            ("@0x10", None),
            ("@", None),
            ("", None),
        ];
        for (text, expected) in rows {
            let expected = expected.map(|(path, address)| ImageArgument { path: path.into(), address });
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
    }
}
