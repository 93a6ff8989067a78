//! Reports written to files: `--report FORMAT=PATH`.

use std::{
    fs, io,
    path::{Path, PathBuf},
    str::FromStr,
};

use super::input::reason;
use crate::report::Format;
use kyvtest_go_compat::diagnostic::{Code, Diagnostic};

/// A report format and its file.
#[derive(Debug, Clone)]
pub(super) struct ReportFile {
    pub(super) format: Format,
    pub(super) path: PathBuf,
}

impl FromStr for ReportFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (format, path) = text
            .split_once('=')
            .ok_or("write FORMAT=PATH, such as `junit=report.xml`")?;
        let format = Format::named(format).ok_or_else(|| {
            let names = Format::ALL.map(|format| format!("`{}`", format.name()));
            format!("unknown report format `{format}`; expected one of {}", names.join(", "))
        })?;
        if path.is_empty() {
            return Err("the path is missing".to_owned());
        }
        Ok(Self {
            format,
            path: path.into(),
        })
    }
}

impl ReportFile {
    /// Writes the report atomically: readers see the old file or the new one, never a part.
    pub(super) fn write(&self, text: &str) -> Result<(), Diagnostic> {
        write(&self.path, text)
    }
}

/// Writes a file atomically: readers see the old file or the new one, never a part.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Diagnostic> {
    replace(path, text.as_bytes()).map_err(|error| {
        let message = format!("cannot write `{}`: {}", path.display(), reason(&error));
        Diagnostic::new(Code::OutputFailed, message)
    })
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A pipe or a device is written directly.
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return fs::write(path, bytes);
    }
    let Some(name) = path.file_name().filter(|_| !path.is_dir()) else {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    };
    let mut part = name.to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(part);
    let written = fs::write(&part, bytes).and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}
