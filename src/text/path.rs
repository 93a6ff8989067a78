//! Paths with slashes.
//!
//! Upstream counterpart: Go's `path` and, on Unix, `path/filepath`.

/// Go's `path.Clean`: no empty parts, no `.`, no `..` that can be taken away.
pub(crate) fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&last) if last != ".." => {
                    parts.pop();
                }
                _ if rooted => {}
                _ => parts.push(".."),
            },
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (rooted, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

/// Go's `path.Join` of two parts, of which at least one is not empty.
pub(crate) fn join(folder: &str, path: &str) -> String {
    if folder.is_empty() {
        return clean(path);
    }
    clean(&format!("{folder}/{path}"))
}
