//! Whether a value fits its type, and the atomic parts of an apply configuration.
//!
//! Upstream counterpart: `typed/validate.go` of structured-merge-diff v6, and `findAtomics` of the API server's `smd.go`.

use super::{
    config::{Input, Kind},
    element::Element,
    schema::{Atom, ListType, MapType, Scalar, Type},
};

/// The treatment of elements with equal keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Duplicates {
    Allow,
    Reject,
}

/// A path and the problem there.
struct Problem {
    path: String,
    message: String,
}

/// Checks a value. The error lists all problems as upstream prints them.
pub(super) fn validate(ty: Type<'_>, value: Input<'_>, duplicates: Duplicates) -> Result<(), String> {
    let mut walker = Walker {
        duplicates,
        path: String::new(),
        problems: Vec::new(),
    };
    walker.value(ty, value);
    let text = |problem: &Problem| {
        if problem.path.is_empty() {
            problem.message.clone()
        } else {
            format!("{}: {}", problem.path, problem.message)
        }
    };
    match walker.problems.as_slice() {
        [] => Ok(()),
        [problem] => Err(text(problem)),
        problems => {
            let mut out = "errors:".to_owned();
            for problem in problems {
                out.push_str("\n  ");
                out.push_str(&text(problem));
            }
            Err(out)
        }
    }
}

struct Walker {
    duplicates: Duplicates,
    path: String,
    problems: Vec<Problem>,
}

impl Walker {
    fn report(&mut self, message: String) {
        let path = self.path.clone();
        self.problems.push(Problem { path, message });
    }

    /// Checks a child; its part of the path is written only for the time being.
    fn child(&mut self, part: std::fmt::Arguments<'_>, ty: Type<'_>, value: Input<'_>) {
        use std::fmt::Write as _;
        let length = self.path.len();
        let _ = self.path.write_fmt(part);
        self.value(ty, value);
        self.path.truncate(length);
    }

    fn value(&mut self, ty: Type<'_>, value: Input<'_>) {
        let atom = deduce(ty.atom(), value.kind());
        if let Some(map) = atom.map {
            self.map(ty, map, value);
        } else if let Some(scalar) = atom.scalar {
            self.scalar(scalar, value);
        } else if let Some(list) = atom.list {
            self.list(ty, list, value);
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: Input<'_>) {
        let kind = value.kind();
        if kind == Kind::Null {
            return;
        }
        match scalar {
            Scalar::Number if kind != Kind::Number => {
                self.report(format!("expected numeric (int or float), got {}", value.go_type()));
            }
            Scalar::String if kind != Kind::String => self.report(format!("expected string, got {}", value.debug())),
            Scalar::Boolean if kind != Kind::Bool => self.report(format!("expected boolean, got {}", value.display())),
            Scalar::Any if !kind.is_scalar() => self.report(format!("expected any scalar, got {}", value.display())),
            _ => {}
        }
    }

    fn map(&mut self, ty: Type<'_>, map: &MapType, value: Input<'_>) {
        match value.kind() {
            Kind::Null => return,
            Kind::Map => {}
            _ => return self.report(format!("expected map, got {}", value.display())),
        }
        for (key, value) in value.entries() {
            let Some(field) = map.field(key) else {
                let message = "field not declared in schema".to_owned();
                let path = format!("{}.{key}", self.path);
                self.problems.push(Problem { path, message });
                return;
            };
            self.child(format_args!(".{key}"), ty.at(field), value);
        }
    }

    fn list(&mut self, ty: Type<'_>, list: &ListType, value: Input<'_>) {
        match value.kind() {
            Kind::Null => return,
            Kind::List => {}
            _ => return self.report(format!("expected list, got {}", value.display())),
        }
        let mut seen: Vec<Element> = Vec::new();
        for (i, item) in value.items().into_iter().enumerate() {
            if list.is_atomic {
                self.child(format_args!("[{i}]"), ty.at(list.item), item);
                continue;
            }
            let element = match Element::of(list, item) {
                Ok(element) => element,
                Err(problem) => return self.report(format!("element {i}: {problem}")),
            };
            if self.duplicates == Duplicates::Reject && seen.contains(&element) {
                self.report(format!("duplicate entries for key {element}"));
            }
            self.child(format_args!("{element}"), ty.at(list.item), item);
            seen.push(element);
        }
    }
}

/// The forms of a type that apply to a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Forms<'s> {
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<&'s ListType>,
    pub(super) map: Option<&'s MapType>,
}

/// Narrows a type to the form of a value, if it has that form.
pub(super) fn deduce(atom: &Atom, kind: Kind) -> Forms<'_> {
    let all = Forms {
        scalar: atom.scalar,
        list: atom.list.as_deref(),
        map: atom.map.as_deref(),
    };
    let none = Forms {
        scalar: None,
        list: None,
        map: None,
    };
    match kind {
        kind if kind.is_scalar() && all.scalar.is_some() => Forms {
            scalar: all.scalar,
            ..none
        },
        Kind::List if all.list.is_some() => Forms { list: all.list, ..none },
        Kind::Map if all.map.is_some() => Forms { map: all.map, ..none },
        _ => all,
    }
}

/// The paths of atomic values, as far as declared fields and list elements lead to them.
pub(super) fn atomics(ty: Type<'_>, value: Input<'_>) -> Vec<String> {
    let mut found = Vec::new();
    find_atomics(ty, value, "", &mut found);
    found
}

fn find_atomics(ty: Type<'_>, value: Input<'_>, path: &str, found: &mut Vec<String>) {
    let atom = ty.atom();
    match (value.kind(), &atom.map, &atom.list) {
        (Kind::Map, Some(map), _) => {
            if map.is_atomic {
                found.push(path.to_owned());
            }
            for (key, value) in value.entries() {
                if let Some(&field) = map.fields.get(key) {
                    find_atomics(ty.at(field), value, &format!("{path}.{key}"), found);
                }
            }
        }
        (Kind::List, _, Some(list)) => {
            if list.is_atomic {
                found.push(path.to_owned());
            }
            for (i, item) in value.items().into_iter().enumerate() {
                find_atomics(ty.at(list.item), item, &format!("{path}[{i}]"), found);
            }
        }
        _ => {}
    }
}
