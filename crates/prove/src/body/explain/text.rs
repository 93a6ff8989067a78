//! Edits of objects as edits of the files in which they are written: everything else keeps its place, comments included.
//!
//! The result is read again and compared with the edited object; what cannot be edited in place is left to the caller.

use kyvtest_go_compat::{
    value::Document,
    yaml::{self, Edits, Items, Kind, Limits, Mode, Node, Span, emit},
};
use serde_json::Value as Json;

use super::{
    edit::{Change, Edit},
    path::Key,
};

/// The file of an object with an edit; `None` if the text cannot be edited in place. `root` is the object, and `after` what it
/// becomes.
pub(super) fn edited(root: Node<'_>, edit: &Edit, after: &Json) -> Option<String> {
    let source = root.tree().source();
    let mut edits = Edits::new(source);
    let (parent, last) = edit.path.split()?;
    let parent = parent.exact(root)?;
    match (&edit.change, last) {
        (Change::Set(value), _) => match edit.path.exact(root) {
            Some(node) => set(&mut edits, source, node, value)?,
            None => {
                let Key::Field(key) = last else { return None };
                insert(&mut edits, parent, key, value)?;
            }
        },
        (Change::Rename(key), Key::Field(old)) => {
            let entry = parent.as_map()?.get(old)?;
            edits.replace(entry.key_span, emit::quote(key));
        }
        (Change::Remove, Key::Field(key)) => {
            let entry = parent.as_map()?.get(key)?;
            edits.remove(parent, entry);
        }
        (Change::Remove, Key::Item(number)) => remove_item(&mut edits, source, parent, *number)?,
        (Change::Rename(_), Key::Item(_)) => return None,
    }
    let text = edits.finish();
    let stream = yaml::read(text.as_bytes(), Mode::Lax, &Limits::default());
    let is_after = |document: &yaml::Document| {
        document.tree().is_ok_and(|tree| {
            let root = tree.root();
            let items = root.get("items").and_then(Node::as_seq);
            let items = items.into_iter().flat_map(Items::iter);
            items
                .chain([root])
                .any(|node| Document::from(node).root().to_serde() == *after)
        })
    };
    stream.documents().iter().any(is_after).then_some(text)
}

/// Replaces a value. Of a text only the part that changes is replaced, so that it keeps its quotes and lines.
fn set(edits: &mut Edits<'_>, source: &str, node: Node<'_>, value: &Json) -> Option<()> {
    if let (Kind::Str(old), Json::String(new)) = (node.kind(), value) {
        let head = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
        let tails = old.bytes().rev().zip(new.bytes().rev());
        let most = old.len().min(new.len()) - head;
        let tail = tails.take_while(|(a, b)| a == b).count().min(most);
        let head = (0..=head)
            .rev()
            .find(|at| old.is_char_boundary(*at) && new.is_char_boundary(*at))?;
        let tail = (0..=tail)
            .rev()
            .find(|at| old.is_char_boundary(old.len() - at) && new.is_char_boundary(new.len() - at))?;
        let segments = node.segments();
        let start = segments.source_offset(head);
        let end = if old.len() - tail > head {
            segments.source_offset(old.len() - tail - 1) + 1
        } else {
            start
        };
        let written = source.get(start as usize..end as usize)?;
        if written == old.get(head..old.len() - tail)? {
            edits.replace(Span::new(start, end), new.get(head..new.len() - tail)?);
            return Some(());
        }
        edits.replace(node.span(), emit::quote(new));
        return Some(());
    }
    let text = match value {
        Json::Array(list) if edits.is_flow(node) => {
            let items: Option<Vec<String>> = list.iter().map(|item| item.as_str().map(emit::quote)).collect();
            format!("[{}]", items?.join(", "))
        }
        Json::Array(list) => {
            let indent = edits.indent(node.span().start);
            let items: Option<Vec<String>> = list
                .iter()
                .map(|item| Some(format!("- {}", emit::quote(item.as_str()?))))
                .collect();
            items?.join(&format!("\n{indent}"))
        }
        Json::Bool(_) | Json::Number(_) => value.to_string(),
        Json::String(text) => emit::quote(text),
        _ => return None,
    };
    edits.replace(node.span(), text);
    Some(())
}

/// Adds an entry before the first one of a map.
fn insert(edits: &mut Edits<'_>, map: Node<'_>, key: &str, value: &Json) -> Option<()> {
    let first = map.as_map()?.at(0)?;
    let key = emit::quote(key);
    if edits.is_flow(map) {
        let text = match value {
            Json::String(text) => emit::quote(text),
            other => other.to_string(),
        };
        edits.insert(first.key_span.start, format!("{key}: {text}, "));
        return Some(());
    }
    let indent = edits.indent(first.key_span.start);
    let text = match value {
        Json::Object(_) | Json::Array(_) => {
            let yaml = Document::from(value).root().to_yaml();
            let lines = yaml.lines().map(|line| format!("\n{indent}  {line}"));
            lines.collect::<String>()
        }
        Json::String(text) => format!(" {}", emit::quote(text)),
        other => format!(" {other}"),
    };
    edits.insert(first.key_span.start, format!("{key}:{text}\n{indent}"));
    Some(())
}

fn remove_item(edits: &mut Edits<'_>, source: &str, list: Node<'_>, number: usize) -> Option<()> {
    let items = list.as_seq()?;
    let (item, next) = (items.get(number)?, items.get(number + 1));
    let before = number.checked_sub(1).and_then(|before| items.get(before));
    if edits.is_flow(list) {
        let span = match (before, next) {
            (_, Some(next)) => Span::new(item.span().start, next.span().start),
            (Some(before), None) => Span::new(before.span().end, item.span().end),
            (None, None) => item.span(),
        };
        edits.replace(span, "");
        return Some(());
    }
    let line = |at: u32| {
        source
            .get(..at as usize)
            .and_then(|text| text.rfind('\n'))
            .map_or(0, |end| end + 1)
    };
    let start = line(item.span().start);
    let end = match next {
        Some(next) => line(next.span().start),
        None => {
            let end = item.span().end as usize;
            source.get(end..)?.find('\n').map_or(source.len(), |at| end + at + 1)
        }
    };
    edits.replace(Span::new(u32::try_from(start).ok()?, u32::try_from(end).ok()?), "");
    Some(())
}
