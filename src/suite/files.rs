//! File access: the disk, or memory. Paths are strings with `/`, as the user gave them.

pub(crate) use kyvtest_go_compat::text::path::{clean, join};

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Read as _},
    path::Path,
    sync::Mutex,
};

use walkdir::WalkDir;

use kyvtest_go_compat::yaml::Limits;

/// A store of files.
pub trait Files: Sync {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;

    /// Whether the path is a directory.
    ///
    /// # Errors
    /// If it does not exist.
    fn is_directory(&self, path: &str) -> io::Result<bool>;

    /// The names in a directory, sorted, with whether each is a directory itself.
    ///
    /// # Errors
    /// If it cannot be read.
    fn list(&self, path: &str) -> io::Result<Vec<(String, bool)>>;

    /// Returns the same identity for every path to a directory, so that callers can detect link cycles. `None` if paths
    /// are unique.
    fn identity(&self, path: &str) -> Option<String> {
        let _ = path;
        None
    }

    /// Every file with a name below a directory, in Kyverno's order; links to directories are not followed.
    ///
    /// # Errors
    /// If a directory cannot be read.
    fn find(&self, root: &str, name: &str) -> io::Result<Vec<String>> {
        let mut search = self.search(root, name);
        if search.unreadable.is_empty() {
            Ok(search.files)
        } else {
            Err(search.unreadable.swap_remove(0).1)
        }
    }

    /// Like [`Files::find`], but lists unreadable directories next to the files.
    fn search(&self, root: &str, name: &str) -> Search {
        let mut search = Search::default();
        let mut open = vec![(root.to_owned(), true)];
        while let Some((path, directory)) = open.pop() {
            if directory {
                let entries = match self.list(&path) {
                    Ok(entries) => entries,
                    Err(error) => {
                        search.unreadable.push((path, error));
                        continue;
                    }
                };
                let paths = entries
                    .into_iter()
                    .map(|(name, directory)| (join(&path, &name), directory));
                let mut paths: Vec<_> = paths.collect();
                paths.reverse();
                open.extend(paths);
            } else if base(&path) == name {
                search.files.push(path);
            }
        }
        search
    }
}

/// The result of [`Files::search`].
#[derive(Debug, Default)]
pub struct Search {
    pub files: Vec<String>,
    /// Unreadable directories, with the reason.
    pub unreadable: Vec<(String, io::Error)>,
}

/// The local file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Files for Disk {
    /// Reads a regular file, up to the size limit of the YAML reader: pipes and devices may never end.
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let metadata = fs::metadata(path)?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe or a device"));
        }
        let limit = Limits::default().bytes as u64;
        let mut bytes = Vec::new();
        fs::File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    }

    fn identity(&self, path: &str) -> Option<String> {
        fs::canonicalize(path)
            .ok()
            .map(|path| path.to_string_lossy().into_owned())
    }

    fn is_directory(&self, path: &str) -> io::Result<bool> {
        fs::metadata(path).map(|metadata| metadata.is_dir())
    }

    fn list(&self, path: &str) -> io::Result<Vec<(String, bool)>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            names.push((
                entry.file_name().to_string_lossy().into_owned(),
                entry.file_type()?.is_dir(),
            ));
        }
        names.sort();
        Ok(names)
    }

    fn search(&self, root: &str, name: &str) -> Search {
        let mut search = Search::default();
        let named = |path: &Path| join(root, &slashes(path.strip_prefix(root).unwrap_or(path)));
        // The given directory itself may be a link.
        for entry in WalkDir::new(root).sort_by_file_name().follow_root_links(true) {
            match entry {
                Ok(entry) if !entry.file_type().is_dir() && entry.file_name() == name => {
                    search.files.push(named(entry.path()));
                }
                Ok(_) => {}
                Err(error) => {
                    let path = error.path().map_or_else(|| root.to_owned(), named);
                    search.unreadable.push((path, error.into()));
                }
            }
        }
        search
    }
}

/// A path with `/` as the separator on every system.
fn slashes(path: &Path) -> String {
    let parts: Vec<_> = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect();
    parts.join("/")
}

/// Files in memory, by path.
#[derive(Debug, Clone, Default)]
pub struct Memory(pub BTreeMap<String, Vec<u8>>);

impl Memory {
    pub fn add(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.0.insert(clean(path), bytes.into());
    }

    /// The paths below a directory, relative to it.
    fn below<'a>(&'a self, directory: &str) -> impl Iterator<Item = &'a str> {
        let prefix = match clean(directory).as_str() {
            "." => String::new(),
            "/" => "/".to_owned(),
            directory => format!("{directory}/"),
        };
        self.0.keys().filter_map(move |path| path.strip_prefix(prefix.as_str()))
    }
}

impl Files for Memory {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        if self.is_directory(path)? {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        self.0
            .get(&clean(path))
            .cloned()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn is_directory(&self, path: &str) -> io::Result<bool> {
        if self.0.contains_key(&clean(path)) {
            return Ok(false);
        }
        if self.below(path).next().is_some() {
            return Ok(true);
        }
        Err(io::ErrorKind::NotFound.into())
    }

    fn list(&self, path: &str) -> io::Result<Vec<(String, bool)>> {
        if !self.is_directory(path)? {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let names = self.below(path).map(|rest| match rest.split_once('/') {
            Some((directory, _)) => (directory.to_owned(), true),
            None => (rest.to_owned(), false),
        });
        let mut names: Vec<_> = names.collect();
        names.sort();
        names.dedup();
        Ok(names)
    }
}

/// Files in memory that hide others.
pub struct Overlay<'f> {
    /// The underlying files.
    pub under: &'f dyn Files,
    /// The hiding files, by cleaned path.
    pub over: Memory,
}

impl std::fmt::Debug for Overlay<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Overlay")
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

impl Files for Overlay<'_> {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        match self.over.0.get(&clean(path)) {
            Some(bytes) => Ok(bytes.clone()),
            None => self.under.read(path),
        }
    }

    fn is_directory(&self, path: &str) -> io::Result<bool> {
        self.over.is_directory(path).or_else(|_| self.under.is_directory(path))
    }

    fn list(&self, path: &str) -> io::Result<Vec<(String, bool)>> {
        let mut names = match (self.over.list(path), self.under.list(path)) {
            (Ok(mut over), Ok(under)) => {
                over.extend(under);
                over
            }
            (Ok(names), Err(_)) | (Err(_), Ok(names)) => names,
            (Err(_), Err(error)) => return Err(error),
        };
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn identity(&self, path: &str) -> Option<String> {
        self.under.identity(path)
    }
}

/// The accessed paths, existing or not; paths are cleaned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dependencies {
    /// Files and directories accessed by name.
    pub paths: BTreeSet<String>,
    /// Listed directories.
    pub directories: BTreeSet<String>,
}

/// Records accesses to the underlying files.
pub struct RecordingFiles<'f> {
    under: &'f dyn Files,
    dependencies: Mutex<Dependencies>,
}

impl std::fmt::Debug for RecordingFiles<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingFiles")
            .field("dependencies", &self.dependencies)
            .finish_non_exhaustive()
    }
}

impl<'f> RecordingFiles<'f> {
    pub fn new(under: &'f dyn Files) -> Self {
        Self {
            under,
            dependencies: Mutex::default(),
        }
    }

    pub fn dependencies(&self) -> Dependencies {
        self.dependencies
            .lock()
            .map(|dependencies| dependencies.clone())
            .unwrap_or_default()
    }

    fn note(&self, path: &str) {
        if let Ok(mut dependencies) = self.dependencies.lock() {
            dependencies.paths.insert(clean(path));
        }
    }
}

impl Files for RecordingFiles<'_> {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.note(path);
        self.under.read(path)
    }

    fn is_directory(&self, path: &str) -> io::Result<bool> {
        self.note(path);
        self.under.is_directory(path)
    }

    fn list(&self, path: &str) -> io::Result<Vec<(String, bool)>> {
        if let Ok(mut dependencies) = self.dependencies.lock() {
            dependencies.directories.insert(clean(path));
        }
        self.under.list(path)
    }

    fn identity(&self, path: &str) -> Option<String> {
        self.under.identity(path)
    }
}

/// A path in a file of `directory`: absolute ones are unchanged, others are relative to the directory.
pub(crate) fn resolve(directory: &str, path: &str) -> String {
    if path.starts_with('/') || Path::new(path).is_absolute() {
        path.to_owned()
    } else {
        join(directory, path)
    }
}

/// The directory that a file is in.
pub(crate) fn parent(path: &str) -> String {
    match path.rsplit_once('/') {
        Some(("", _)) => "/".to_owned(),
        Some((directory, _)) => clean(directory),
        None => ".".to_owned(),
    }
}

/// The last part of a path.
pub(crate) fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The operating system's message in our style: without the number, in lower case.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    };
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_as_go_does() {
        for (path, cleaned) in [
            ("", "."),
            ("./a//b/../c/", "a/c"),
            ("../../a", "../../a"),
            ("/../a", "/a"),
            ("/", "/"),
            ("a/..", "."),
            ("https://h/p", "https:/h/p"),
        ] {
            assert_eq!(clean(path), cleaned, "{path}");
        }
        assert_eq!(parent("/a"), "/");
        assert_eq!(parent("a"), ".");
        assert_eq!(resolve("x/y", "../z.yaml"), "x/z.yaml");
        assert_eq!(resolve("x", "/z.yaml"), "/z.yaml");
    }

    #[test]
    fn memory_has_directories() {
        let mut files = Memory::default();
        for path in ["a/b/t.yaml", "a/.h/t.yaml", "a/t.yaml", "a/b.yaml"] {
            files.add(path, "");
        }
        let found = files.find("a", "t.yaml").expect("a folder");
        assert_eq!(found, ["a/.h/t.yaml", "a/b/t.yaml", "a/t.yaml"]);
        assert!(files.is_directory("a/b").expect("it is there"));
        assert!(files.list("a/t.yaml").is_err());
        assert!(files.read("a/none.yaml").is_err());
    }
}
