//! Well-typed expressions and documents for them, made from a list of choices, so that a shorter or smaller list makes a
//! simpler expression and a failure shrinks.

use std::fmt::Write as _;

/// The choices, taken in order; when they are used up the simplest one is taken.
pub(crate) struct Choices<'c> {
    rest: std::slice::Iter<'c, u16>,
}

impl<'c> Choices<'c> {
    pub(crate) fn new(choices: &'c [u16]) -> Self {
        Self { rest: choices.iter() }
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::from(self.rest.next().copied().unwrap_or(0)) % limit
    }

    fn is_over(&self) -> bool {
        self.rest.as_slice().is_empty()
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from[self.below(from.len())]
    }
}

/// The types of the expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Int,
    Double,
    Text,
    Ints,
    Texts,
    Labels,
    MaybeText,
    MaybeInt,
    Duration,
    Timestamp,
}

use Kind::*;

const KINDS: [Kind; 11] = [
    Bool, Int, Text, Double, Ints, Texts, Labels, MaybeText, MaybeInt, Duration, Timestamp,
];

/// What an expression may be made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grammar {
    /// Whether parts of `object`, whose type is unknown, may occur for any type.
    pub(crate) dynamic: bool,
    /// Whether Kyverno's libraries are available (`math`, `base64`, `cel.bind`).
    pub(crate) kyverno: bool,
}

/// An expression of some type.
pub(crate) fn expression(choices: &mut Choices<'_>, grammar: Grammar) -> String {
    let kind = KINDS[choices.below(KINDS.len())];
    let mut maker = Maker {
        choices,
        grammar,
        scope: Vec::new(),
        fresh: 0,
    };
    maker.make(kind, 0)
}

struct Maker<'m, 'c> {
    choices: &'m mut Choices<'c>,
    grammar: Grammar,
    /// The variables of the comprehensions around the place.
    scope: Vec<(String, Kind)>,
    fresh: u32,
}

/// Templates: `$x` is an expression of a kind, by the letters of [`Maker::fill`].
const BOOLS: [&str; 34] = [
    "$b && $b",
    "$b || $b",
    "!$b",
    "$b ? $b : $b",
    "$i == $i",
    "$i != $i",
    "$i < $i",
    "$i >= $i",
    "$d < $d",
    "$d == $d",
    "$s == $s",
    "$s < $s",
    "$s in $S",
    "$i in $I",
    "$s in $m",
    "$s.startsWith($s)",
    "$s.endsWith($s)",
    "$s.contains($s)",
    "$s.matches('^[a-z]+([-.][a-z0-9]+)*$')",
    "$o.hasValue()",
    "$p.hasValue()",
    "$S == $S",
    "$m == $m",
    "sets.contains($S, $S)",
    "sets.intersects($I, $I)",
    "sets.equivalent($I, $I)",
    "$I.isSorted()",
    "$t < $t",
    "$u > $u",
    "isQuantity($s)",
    "isURL($s)",
    "isIP($s)",
    "isSemver($s)",
    "has({'a': 1}.a)",
];
const INTS: [&str; 26] = [
    "$i + $i",
    "$i - $i",
    "$i * $i",
    "$i / $i",
    "$i % $i",
    "-$i",
    "size($s)",
    "$S.size()",
    "size($m)",
    "int($d)",
    "int($s)",
    "$b ? $i : $i",
    "$I[$i]",
    "$I.sum()",
    "$I.max()",
    "$I.min()",
    "$I.indexOf($i)",
    "$S.lastIndexOf($s)",
    "$s.indexOf($s)",
    "$s.lastIndexOf($s, $i)",
    "$p.orValue($i)",
    "$p.value()",
    "int($t)",
    "$t.getFullYear()",
    "$t.getDayOfWeek('Europe/Berlin')",
    "$u.getSeconds()",
];
const DOUBLES: [&str; 8] = [
    "$d + $d",
    "$d - $d",
    "$d * $d",
    "$d / $d",
    "-$d",
    "double($i)",
    "double($s)",
    "$b ? $d : $d",
];
const TEXTS: [&str; 22] = [
    "$s + $s",
    "string($i)",
    "string($d)",
    "string($b)",
    "$b ? $s : $s",
    "$S[$i]",
    "$m[$s]",
    "$s.lowerAscii()",
    "$s.upperAscii()",
    "$s.trim()",
    "$s.replace($s, $s)",
    "$s.replace($s, $s, $i)",
    "$s.substring($i)",
    "$s.substring($i, $i)",
    "$s.charAt($i)",
    "$S.join($s)",
    "'%s-%d'.format([$s, $i])",
    "strings.quote($s)",
    "$o.orValue($s)",
    "$o.value()",
    "$s.find('[a-z]+')",
    "string($t)",
];
const INT_LISTS: [&str; 14] = [
    "[$i, $i]",
    "[$i, ?$p]",
    "$I + $I",
    "$I.filter(x, $b)",
    "$I.map(x, $i)",
    "$S.map(x, $i)",
    "$b ? $I : $I",
    "lists.range($i)",
    "$I.sort()",
    "$I.reverse()",
    "$I.distinct()",
    "$I.slice($i, $i)",
    "[$I, $I].flatten()",
    "$I.transformList(k, v, $b, $i)",
];
const TEXT_LISTS: [&str; 11] = [
    "[$s, $s]",
    "$S + $S",
    "$S.filter(x, $b)",
    "$I.map(x, $s)",
    "$m.map(x, $s)",
    "$b ? $S : $S",
    "$s.split($s)",
    "$s.split($s, $i)",
    "$S.sortBy(x, $i)",
    "$s.findAll('[a-z]', $i)",
    "optional.unwrap([$o, $o])",
];
const MAPS: [&str; 5] = [
    "{$s: $s}",
    "{$s: $s, ?$s: $o}",
    "$b ? $m : $m",
    "$m.transformMap(k, v, $b, $s)",
    "$S.transformMapEntry(k, v, {v: $s})",
];
const MAYBE_TEXTS: [&str; 8] = [
    "optional.of($s)",
    "optional.ofNonZeroValue($s)",
    "$m[?$s]",
    "$S[?$i]",
    "$o.or($o)",
    "$o.optMap(x, $s)",
    "$p.optFlatMap(x, $o)",
    "$b ? $o : $o",
];
const MAYBE_INTS: [&str; 6] = [
    "optional.of($i)",
    "$I[?$i]",
    "$I.first()",
    "$p.or($p)",
    "$o.optMap(x, $i)",
    "$b ? $p : $p",
];
const DURATIONS: [&str; 4] = ["duration($s)", "$u + $u", "$t - $t", "$b ? $u : $u"];
const TIMESTAMPS: [&str; 4] = ["timestamp($s)", "$t + $u", "$t - $u", "$b ? $t : $t"];
/// Folds over a list or map, with the kind of the elements.
const FOLDS: [(&str, Kind); 9] = [
    ("$I.all(x, $b)", Int),
    ("$I.exists(x, $b)", Int),
    ("$I.exists_one(x, $b)", Int),
    ("$S.all(x, $b)", Text),
    ("$S.exists(x, $b)", Text),
    ("$m.all(x, $b)", Text),
    ("$S.all(k, x, $b)", Text),
    ("$I.existsOne(k, x, $b)", Int),
    ("$m.exists(k, x, $b)", Text),
];
const KYVERNO_INTS: [&str; 4] = [
    "math.greatest($i, $i)",
    "math.least($i, $i)",
    "math.bitAnd($i, $i)",
    "cel.bind(x, $i, $i)",
];
const KYVERNO_TEXTS: [&str; 3] = [
    "base64.encode(bytes($s))",
    "string(base64.decode($s))",
    "cel.bind(x, $s, $s)",
];
/// Fields of a pod, present or not, of the right type or not.
const PLACES: [&str; 14] = [
    "object.metadata.name",
    "object.metadata.labels",
    "object.metadata.?labels",
    "object.metadata.labels['app.kubernetes.io/name']",
    "object.spec.containers",
    "object.spec.containers[0].image",
    "object.spec.containers.map(x, x.image)",
    "object.spec.?securityContext.?runAsUser.orValue(0)",
    "object.spec[?'replicas'].orValue(1)",
    "object.spec.replicas",
    "object.spec.hostNetwork",
    "object.spec",
    "object.spec.volumes[object.spec.replicas]",
    "object",
];

impl Maker<'_, '_> {
    fn make(&mut self, kind: Kind, depth: usize) -> String {
        if depth > 7 || self.choices.is_over() {
            return self.leaf(kind);
        }
        let what = self.choices.below(16);
        if what < 4 {
            return self.leaf(kind);
        }
        if self.grammar.dynamic && what == 4 {
            return self.choices.pick(&PLACES).to_owned();
        }
        if kind == Bool && what < 7 {
            let (template, element) = FOLDS[self.choices.below(FOLDS.len())];
            return self.fill(template, element, depth);
        }
        let templates: &[&'static str] = match kind {
            Bool => &BOOLS,
            Int if self.grammar.kyverno && what == 5 => &KYVERNO_INTS,
            Text if self.grammar.kyverno && what == 5 => &KYVERNO_TEXTS,
            Int => &INTS,
            Double => &DOUBLES,
            Text => &TEXTS,
            Ints => &INT_LISTS,
            Texts => &TEXT_LISTS,
            Labels => &MAPS,
            MaybeText => &MAYBE_TEXTS,
            MaybeInt => &MAYBE_INTS,
            Duration => &DURATIONS,
            Timestamp => &TIMESTAMPS,
        };
        let mut template = self.choices.pick(templates).to_owned();
        if self.grammar.kyverno && !self.grammar.dynamic {
            // Kyverno's own form accepts and returns anything.
            template = template
                .replace(".orValue($i)", ".value()")
                .replace(".orValue($s)", ".value()");
        }
        let element = match template.as_str() {
            _ if template.starts_with("$I") || template.starts_with("$p") => Int,
            _ if template.starts_with("cel.bind(x, $i") => Int,
            _ => Text,
        };
        self.fill(&template, element, depth)
    }

    /// Fills a template; behind a macro's opening parenthesis its variable is visible.
    fn fill(&mut self, template: &str, element: Kind, depth: usize) -> String {
        let visible = self.scope.len();
        let mut bound = None;
        let mut out = String::from("(");
        let mut rest = template;
        while let Some(at) = rest.find(['$', 'x']) {
            out.push_str(&rest[..at]);
            let hole = rest[at..].chars().nth(1).unwrap_or(' ');
            if rest[at..].starts_with('$') && hole.is_ascii_alphabetic() {
                let kind = match hole {
                    'b' => Bool,
                    'i' => Int,
                    'd' => Double,
                    's' => Text,
                    'I' => Ints,
                    'S' => Texts,
                    'm' => Labels,
                    'o' => MaybeText,
                    'p' => MaybeInt,
                    'u' => Duration,
                    't' => Timestamp,
                    other => panic!("no such hole: {other}"),
                };
                out.push_str(&self.make(kind, depth + 1));
                self.scope.extend(bound.take());
                rest = &rest[at + 2..];
            } else if rest[at..].starts_with("x,") {
                // Each comprehension has its own name, except that some hide another one.
                if self.choices.below(8) != 1 {
                    self.fresh += 1;
                }
                let name = format!("x{}", self.fresh);
                out.push_str(&name);
                rest = &rest[at + 1..];
                // What `cel.bind` binds is outside its scope.
                if template.starts_with("cel.bind") {
                    bound = Some((name, element));
                } else {
                    self.scope.push((name, element));
                }
            } else {
                let length = rest[at..].chars().next().map_or(0, char::len_utf8);
                out.push_str(&rest[at..at + length]);
                rest = &rest[at + length..];
            }
        }
        out.push_str(rest);
        self.scope.truncate(visible);
        out.push(')');
        out
    }

    fn leaf(&mut self, kind: Kind) -> String {
        let local: Vec<&String> = self.scope.iter().filter(|(_, k)| *k == kind).map(|(n, _)| n).collect();
        // A name that is hidden by another kind's must not be used.
        let usable = |name: &str| {
            self.scope
                .iter()
                .rev()
                .find(|(n, _)| n == name)
                .is_some_and(|(_, k)| *k == kind)
        };
        let local: Vec<String> = local.into_iter().filter(|name| usable(name)).cloned().collect();
        if !local.is_empty() && self.choices.below(3) > 0 {
            return local[self.choices.below(local.len())].clone();
        }
        let leaves: &[&'static str] = match kind {
            Bool => &["true", "false", "b"],
            Int => &[
                "1",
                "0",
                "(-1)",
                "n",
                "2",
                "7",
                "9223372036854775807",
                "(-9223372036854775808)",
                "100",
            ],
            Double => &["0.5", "d", "(-1.0)", "0.0", "1e308", "3.0"],
            Text => &[
                "'a'",
                "s",
                "''",
                "'reg/a:1'",
                "'10Mi'",
                "'1.2.3'",
                "'é日\\U0001F600'",
                "'2024-02-29T00:00:00Z'",
                "'1h30m'",
                "'12'",
            ],
            Ints => &["numbers", "[1, 2, 3]"],
            Texts => &["names", "['a', 'b', 'a']"],
            Labels => &["labels", "{'a': 'b'}"],
            MaybeText => &["maybe", "optional.of('a')"],
            MaybeInt => &["optional.of(1)", "[1][?5]"],
            Duration => &["duration('1h')", "duration('-0.5s')"],
            Timestamp => &[
                "timestamp('2024-01-31T23:59:59.5Z')",
                "timestamp('0001-01-01T00:00:00Z')",
            ],
        };
        self.choices.pick(leaves).to_owned()
    }
}

/// A pod, parts of which may be absent, null or of another kind; as JSON.
pub(crate) fn pod(choices: &mut Choices<'_>) -> String {
    let mut out = String::from(r#"{"apiVersion":"v1","kind":"Pod""#);
    let other = |choices: &mut Choices<'_>, usual: &str| match choices.below(10) {
        1 => "null".to_owned(),
        2 => choices
            .pick(&["1", "-0.5", "\"text\"", "[]", "{}", "true", "[null]", "{\"a\":1}"])
            .to_owned(),
        _ => usual.to_owned(),
    };
    let labels = other(choices, r#"{"app.kubernetes.io/name":"a","b":"c"}"#);
    let metadata = other(choices, &format!(r#"{{"name":"pod-a","labels":{labels}}}"#));
    let image = other(choices, "\"reg/a:1\"");
    let container = other(choices, &format!(r#"{{"name":"a","image":{image}}}"#));
    let containers = other(choices, &format!(r#"[{container},{{"image":"x"}}]"#));
    let spec = other(
        choices,
        &format!(r#"{{"containers":{containers},"replicas":3,"hostNetwork":false,"volumes":[]}}"#),
    );
    let _ = write!(out, r#","metadata":{metadata},"spec":{spec}}}"#);
    out
}
