//! `[[profile.NAME.overrides]]` of `kyvtest.toml`: settings for the cases that a filter selects.
//!
//! Entries of the selected profile come before those of `default`.

use std::{fmt::Write as _, time::Duration};

use toml_edit::{Item, TableLike, Value};

use crate::run::{filter::Filter, overrides::Override};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, FileId, Sources, Span, nearest},
    text::duration,
};

/// The keys of an entry.
const KEYS: [&str; 4] = ["filter", "timeout", "accept-divergence", "reason"];

/// The entry as TOML in one line.
pub(super) fn shown(entry: &Override) -> String {
    let text = |text: &str| Value::from(text).to_string().trim().to_owned();
    let mut shown = format!("filter = {}", text(&entry.text));
    if let Some(timeout) = entry.timeout {
        let nanos = i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX);
        let _ = write!(shown, ", timeout = {}", text(&duration::format(nanos)));
    }
    if !entry.accept.is_empty() {
        let names: Vec<String> = entry.accept.iter().map(|name| text(name)).collect();
        let (names, reason) = (names.join(", "), text(&entry.reason));
        let _ = write!(shown, ", accept-divergence = [{names}], reason = {reason}");
    }
    format!("{{ {shown} }}")
}

/// A duration as the command line writes it.
pub(super) fn limit(text: &str) -> Result<Duration, String> {
    let nanos = duration::parse(text).map_err(|_| "write a duration such as `500ms` or `2s`".to_owned())?;
    match u64::try_from(nanos) {
        Ok(nanos) if nanos > 0 => Ok(Duration::from_nanos(nanos)),
        _ => Err("the duration must be positive".to_owned()),
    }
}

/// Reads the entries of a profile; adds errors and remarks to the lists.
pub(super) fn read(
    item: &Item,
    file: FileId,
    sources: &mut Sources,
    problems: &mut Vec<Diagnostic>,
    remarks: &mut Vec<Diagnostic>,
) -> Vec<Override> {
    let tables: Vec<&dyn TableLike> = match item {
        Item::ArrayOfTables(tables) => tables.iter().map(|table| table as &dyn TableLike).collect(),
        Item::Value(Value::Array(list)) => list
            .iter()
            .filter_map(|value| value.as_inline_table().map(|table| table as &dyn TableLike))
            .collect(),
        _ => Vec::new(),
    };
    if tables.is_empty() {
        let message = "`overrides` must be tables: `[[profile.NAME.overrides]]`";
        problems.push(Diagnostic::at(Code::BadConfig, span(file, item.span()), message));
    }
    let mut reader = Reader {
        file,
        sources,
        problems,
        remarks,
    };
    tables.into_iter().filter_map(|table| reader.entry(table)).collect()
}

fn span(file: FileId, range: Option<std::ops::Range<usize>>) -> Span {
    let range = range.unwrap_or_default();
    Span::new(file, range.start as u32, range.end as u32)
}

struct Reader<'r> {
    file: FileId,
    sources: &'r mut Sources,
    problems: &'r mut Vec<Diagnostic>,
    remarks: &'r mut Vec<Diagnostic>,
}

impl Reader<'_> {
    fn wrong(&mut self, item: &Item, message: impl Into<String>) {
        let place = span(self.file, item.span());
        self.problems.push(Diagnostic::at(Code::BadConfig, place, message));
    }

    /// One entry; `None` if it has no valid filter.
    fn entry(&mut self, table: &dyn TableLike) -> Option<Override> {
        let mut filter = None;
        let mut timeout = None;
        let mut accept = Vec::new();
        let mut reason = None;
        let mut first = None;
        for (key, item) in table.iter() {
            first.get_or_insert(item);
            match (key, item.as_str()) {
                ("filter", Some(text)) => {
                    let file = self.sources.add("the filter of an override", text);
                    match Filter::parse(text, file) {
                        Ok(read) => filter = Some((text.to_owned(), read)),
                        Err(problem) => self.problems.push(problem),
                    }
                }
                ("timeout", Some(text)) => match limit(text) {
                    Ok(read) => timeout = Some(read),
                    Err(wanted) => self.wrong(item, format!("`timeout`: {wanted}")),
                },
                ("reason", Some(text)) if !text.trim().is_empty() => reason = Some(text.to_owned()),
                ("accept-divergence", Some(text)) => accept.push(text.to_owned()),
                ("accept-divergence", None) => {
                    let names = item.as_array().map(|list| {
                        let names = list.iter().map(|value| value.as_str().map(str::to_owned));
                        names.collect::<Option<Vec<String>>>()
                    });
                    match names.flatten() {
                        Some(names) => accept.extend(names),
                        None => self.wrong(
                            item,
                            "`accept-divergence` must be classes or codes, such as `[\"message\", \"H27\"]`",
                        ),
                    }
                }
                (key, _) if KEYS.contains(&key) => self.wrong(item, format!("`{key}` must be a string")),
                (key, _) => {
                    let place = span(self.file, table.key(key).and_then(toml_edit::Key::span));
                    let remark = Diagnostic::at(Code::UnknownSetting, place, format!("unknown key `{key}`"));
                    let near = nearest(key, KEYS);
                    self.remarks.push(match near.first() {
                        Some(near) => remark.with_help(format!("did you mean `{near}`?")),
                        None => remark.with_help(format!("an override may have {}", KEYS.join(", "))),
                    });
                }
            }
        }
        let whole = first.cloned().unwrap_or_default();
        if !accept.is_empty() && reason.is_none() {
            self.wrong(&whole, "an override that accepts divergences needs a `reason`");
        }
        if table.get("filter").is_none() {
            self.wrong(&whole, "an override needs a `filter`");
        }
        let (text, filter) = filter?;
        Some(Override {
            text,
            filter,
            timeout,
            accept,
            reason: reason.unwrap_or_default(),
        })
    }
}
