//! Checks of single fields, as named in `data/checks.tsv`.
//!
//! Upstream counterpart: the small functions that `pkg/apis/*/validation` applies to one value.

use super::{Checker, Path, format};
use crate::{
    node::Node,
    schema::Format,
    table::{Field, Shape},
};

/// A check with its argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Check {
    rule: Rule,
    argument: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// `>`: checks the structs in the value by their types.
    Descend,
    /// `req`: not empty.
    Required,
    /// `enum`: one of the allowed values, if set.
    Enum,
    /// `enum!`: one of the allowed values, even if empty.
    EnumAlways,
    /// `renum`: required, then one of the allowed values.
    RequiredEnum,
    /// `label`: an RFC 1123 label, if set.
    Label,
    /// `sub`: an RFC 1123 subdomain, if set.
    Subdomain,
    /// `dns1035`: an RFC 1035 label, if set.
    Dns1035,
    /// `qname`: a qualified name, not empty.
    Qualified,
    /// `labels`: keys and values of labels.
    Labels,
    /// `nonneg`: not negative.
    NonNegative,
    /// `pos`: greater than zero, if set.
    Positive,
    /// `range:a:b`: within bounds, if set.
    Range,
    /// `port`: a port number.
    Port,
    /// `port?`: a port number, if not zero.
    OptionalPort,
    /// `portname`: a port number or name.
    PortOrName,
    /// `mode`: file permissions.
    Mode,
    /// `nodots`: a path without `..`.
    NoDots,
    /// `local`: a relative path without `..`.
    Local,
    /// `ip`: an address.
    Ip,
    /// `cidr`: an address range.
    Cidr,
    /// `envname`: a name of an environment variable, if set.
    EnvName,
    /// `selector`: a label selector.
    Selector,
    /// `req?`: not empty, if set.
    RequiredIfSet,
    /// `enum?`: one of the allowed values, if not empty.
    EnumIfFilled,
    /// `pathname`: a segment of a URL path, if set.
    PathName,
}

/// Reads a check of the table.
pub(crate) fn parse_check(text: &'static str) -> Check {
    let (name, argument) = text.split_once(':').unwrap_or((text, ""));
    let rule = match name {
        ">" => Rule::Descend,
        "req" => Rule::Required,
        "enum" => Rule::Enum,
        "enum!" => Rule::EnumAlways,
        "renum" => Rule::RequiredEnum,
        "label" => Rule::Label,
        "sub" => Rule::Subdomain,
        "dns1035" => Rule::Dns1035,
        "qname" => Rule::Qualified,
        "labels" => Rule::Labels,
        "nonneg" => Rule::NonNegative,
        "pos" => Rule::Positive,
        "range" => Rule::Range,
        "port" => Rule::Port,
        "port?" => Rule::OptionalPort,
        "portname" => Rule::PortOrName,
        "mode" => Rule::Mode,
        "nodots" => Rule::NoDots,
        "local" => Rule::Local,
        "ip" => Rule::Ip,
        "cidr" => Rule::Cidr,
        "envname" => Rule::EnvName,
        "selector" => Rule::Selector,
        "pathname" => Rule::PathName,
        "req?" => Rule::RequiredIfSet,
        "enum?" => Rule::EnumIfFilled,
        _ => panic!("unknown check `{text}` in the table"),
    };
    Check { rule, argument }
}

impl Check {
    /// The inclusive bounds of a number that is set.
    pub(crate) fn bounds(self) -> Option<(i64, i64)> {
        match self.rule {
            Rule::NonNegative => Some((0, i64::MAX)),
            Rule::Positive => Some((1, i64::MAX)),
            Rule::Port => Some((1, 65_535)),
            Rule::OptionalPort => Some((0, 65_535)),
            Rule::Range => {
                let (least, most) = self.argument.split_once(':')?;
                Some((least.parse().ok()?, most.parse().ok()?))
            }
            _ => None,
        }
    }

    /// The permitted values of a string that is set.
    pub(crate) fn choices(self) -> Option<impl Iterator<Item = &'static str>> {
        let is_enumeration = matches!(self.rule, Rule::Enum | Rule::EnumAlways | Rule::RequiredEnum);
        (is_enumeration && !self.argument.is_empty()).then(|| self.argument.split(','))
    }

    /// The language of a string that is not empty.
    pub(crate) fn format(self) -> Option<Format> {
        match self.rule {
            Rule::Label => Some(Format::Label),
            Rule::Subdomain => Some(Format::Subdomain),
            Rule::Qualified => Some(Format::Qualified),
            Rule::EnvName => Some(Format::EnvName),
            _ => None,
        }
    }

    /// Whether the field must have a value.
    pub(crate) fn is_requirement(self) -> bool {
        matches!(self.rule, Rule::Required | Rule::RequiredEnum)
    }

    /// Whether the check can fail although the field has no value.
    pub(crate) fn concerns_missing(self, field: &Field) -> bool {
        match self.rule {
            Rule::Required | Rule::RequiredEnum => true,
            Rule::EnumAlways | Rule::Qualified | Rule::Port | Rule::Ip => {
                !field.pointer && !matches!(field.shape, Shape::List(_))
            }
            _ => false,
        }
    }

    pub(super) fn run(self, checker: &mut Checker<'_>, field: &Field, value: Option<&Node<'_>>, path: &Path<'_>) {
        match self.rule {
            Rule::Descend => {
                if let Some(value) = value {
                    checker.descend(&field.shape, value, path);
                }
            }
            Rule::Required => {
                if value.is_none_or(Node::is_empty) {
                    checker.required(path, "");
                }
            }
            Rule::RequiredEnum if value.is_none_or(Node::is_empty) => checker.required(path, ""),
            Rule::RequiredIfSet => {
                if value.is_some_and(Node::is_empty) {
                    checker.required(path, "");
                }
            }
            Rule::EnumAlways | Rule::Qualified | Rule::Ip if value.is_none() => {
                if self.concerns_missing(field) {
                    self.text(checker, field, "", path);
                }
            }
            Rule::Port if value.is_none() => {
                if self.concerns_missing(field) {
                    self.number(checker, 0, path);
                }
            }
            Rule::Selector => {
                if let Some(value) = value {
                    super::meta::selector(checker, value, path);
                }
            }
            Rule::Labels => super::meta::labels(checker, value.map_or(&[], Node::entries), path),
            _ => match value {
                Some(Node::List(items)) => {
                    for (index, item) in items.iter().enumerate() {
                        self.scalar(checker, field, item, &path.index(index));
                    }
                }
                Some(value) => self.scalar(checker, field, value, path),
                None => {}
            },
        }
    }

    fn scalar(self, checker: &mut Checker<'_>, field: &Field, value: &Node<'_>, path: &Path<'_>) {
        match value {
            Node::Int(number) => self.number(checker, *number, path),
            Node::Text(text) => {
                // A pointer to an empty string is a value; an empty string that is not behind a pointer is not.
                let skipped = !field.pointer || self.rule == Rule::EnumIfFilled;
                if text.is_empty() && skipped && !self.takes_empty(field) {
                    return;
                }
                self.text(checker, field, text, path);
            }
            _ => {}
        }
    }

    fn takes_empty(self, field: &Field) -> bool {
        matches!(
            self.rule,
            Rule::EnumAlways | Rule::Qualified | Rule::PortOrName | Rule::Ip | Rule::Cidr
        ) || matches!(field.shape, Shape::List(_))
    }

    fn number(self, checker: &mut Checker<'_>, number: i64, path: &Path<'_>) {
        let text = || number.to_string();
        match self.rule {
            Rule::NonNegative if number < 0 => checker.invalid(path, &text(), "must be greater than or equal to 0"),
            Rule::Positive if number <= 0 => checker.invalid(path, &text(), "must be greater than zero"),
            Rule::Range => {
                let mut bounds = self.argument.split(':').map(|bound| bound.parse::<i64>().unwrap_or(0));
                let (least, most) = (bounds.next().unwrap_or(0), bounds.next().unwrap_or(i64::MAX));
                if !(least..=most).contains(&number) {
                    checker.invalid(path, &text(), &format!("must be between {least} and {most}, inclusive"));
                }
            }
            Rule::Mode if !(0..=0o777).contains(&number) => {
                checker.invalid(
                    path,
                    &text(),
                    "must be a number between 0 and 0777 (octal), both inclusive",
                );
            }
            Rule::OptionalPort if number == 0 => {}
            Rule::Port | Rule::PortOrName | Rule::OptionalPort if !(1..=65_535).contains(&number) => {
                checker.invalid(path, &text(), "must be between 1 and 65535, inclusive");
            }
            _ => {}
        }
    }

    fn text(self, checker: &mut Checker<'_>, field: &Field, text: &str, path: &Path<'_>) {
        match self.rule {
            Rule::Enum | Rule::EnumAlways | Rule::RequiredEnum | Rule::EnumIfFilled => {
                let values = if self.argument.is_empty() {
                    field.values
                } else {
                    self.argument
                };
                if values.split(',').all(|value| value != text) {
                    let values: Vec<&str> = values.split(',').collect();
                    checker.unsupported(path, text, &values);
                }
            }
            Rule::Label => checker.problems(path, text, &format::label(text)),
            Rule::Subdomain => checker.problems(path, text, &format::subdomain(text)),
            Rule::Dns1035 => checker.problems(path, text, &format::dns1035(text)),
            Rule::Qualified => checker.problems(path, text, &format::qualified(text)),
            Rule::PortOrName => checker.problems(path, text, &format::port_name(text)),
            Rule::EnvName => checker.problems(path, text, &format::env_name(text)),
            Rule::PathName => checker.problems(path, text, &format::path_segment(text)),
            Rule::NoDots | Rule::Local => {
                if self.rule == Rule::Local && text.starts_with('/') {
                    checker.invalid(path, text, "must be a relative path");
                }
                if text.split('/').any(|part| part == "..") {
                    checker.invalid(path, text, "must not contain '..'");
                }
            }
            Rule::Ip if !format::is_ip(text) => {
                checker.invalid(
                    path,
                    text,
                    "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                );
            }
            Rule::Cidr if !format::is_cidr(text) => {
                checker.invalid(
                    path,
                    text,
                    "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                );
            }
            _ => {}
        }
    }
}
