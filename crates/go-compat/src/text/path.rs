//! Paths with slashes.
//!
//! Upstream counterpart: Go's `path` and, on Unix, `path/filepath`.

/// Go's `path.Clean`: removes empty parts, `.`, and each `..` that has a part before it.
pub fn clean(path: &str) -> String {
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
pub fn join(folder: &str, path: &str) -> String {
    if folder.is_empty() {
        return clean(path);
    }
    clean(&format!("{folder}/{path}"))
}

/// The path relative to a directory; both must be rooted, or neither.
pub fn relative(folder: &str, path: &str) -> String {
    let (folder, path) = (clean(folder), clean(path));
    let parts = |text: &str| -> Vec<String> {
        let parts = text.split('/').filter(|part| !part.is_empty() && *part != ".");
        parts.map(str::to_owned).collect()
    };
    let (folder, path) = (parts(&folder), parts(&path));
    let same = folder.iter().zip(&path).take_while(|(a, b)| a == b).count();
    let up = folder.iter().skip(same).map(|_| "..".to_owned());
    let way: Vec<String> = up.chain(path.iter().skip(same).cloned()).collect();
    if way.is_empty() { ".".to_owned() } else { way.join("/") }
}
