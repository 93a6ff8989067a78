//! The structural difference of two values.

use std::fmt::{self, Write as _};

use super::{Document, Value};

/// One difference between two values; `None` for a missing side.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Such as `spec.containers[0].image`; the empty path is the whole value.
    pub path: String,
    pub left: Option<Document>,
    pub right: Option<Document>,
}

/// All differences between two values, in the order of the left value, then those that only the right one has.
pub fn diff(left: Value<'_>, right: Value<'_>) -> Vec<Change> {
    let mut changes = Vec::new();
    walk(&mut changes, &mut String::new(), Some(left), Some(right));
    changes
}

fn walk(changes: &mut Vec<Change>, path: &mut String, left: Option<Value<'_>>, right: Option<Value<'_>>) {
    match (left, right) {
        (Some(Value::Map(left)), Some(Value::Map(right))) => {
            for (key, value) in left.iter() {
                with_key(path, key.text(), |path| {
                    walk(changes, path, Some(value), right.get_key(key));
                });
            }
            for (key, value) in right.iter().filter(|(key, _)| !left.contains(*key)) {
                with_key(path, key.text(), |path| walk(changes, path, None, Some(value)));
            }
        }
        (Some(Value::List(left)), Some(Value::List(right))) => {
            for i in 0..left.len().max(right.len()) {
                let len = path.len();
                let _ = write!(path, "[{i}]");
                walk(changes, path, left.get(i), right.get(i));
                path.truncate(len);
            }
        }
        (left, right) if left == right => {}
        (left, right) => changes.push(Change {
            path: path.clone(),
            left: left.map(Value::to_document),
            right: right.map(Value::to_document),
        }),
    }
}

fn with_key(path: &mut String, key: &str, inner: impl FnOnce(&mut String)) {
    let len = path.len();
    let plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if plain {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
    } else {
        let _ = write!(path, "[{}]", serde_json::Value::from(key));
    }
    inner(path);
    path.truncate(len);
}

impl fmt::Display for Change {
    /// `path: left → right`; two multi-line texts are shown as a line diff.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "." } else { &self.path };
        let text = |side: &Option<Document>| side.as_ref().and_then(|d| d.root().as_str().map(str::to_owned));
        if let (Some(left), Some(right)) = (text(&self.left), text(&self.right))
            && (left.contains('\n') || right.contains('\n'))
        {
            writeln!(f, "{path}:")?;
            for (mark, line) in kyvtest_line_diff::lines(&left, &right) {
                writeln!(f, "  {mark}{line}")?;
            }
            return Ok(());
        }
        let side = |side: &Option<Document>| {
            side.as_ref()
                .map_or_else(|| "(none)".to_owned(), |d| d.root().to_json())
        };
        write!(f, "{path}: {} → {}", side(&self.left), side(&self.right))
    }
}
