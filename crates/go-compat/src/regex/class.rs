//! Character sets as Go's `regexp/syntax` builds them: Perl and POSIX groups, Unicode categories and scripts, case
//! folding.
//!
//! Go 1.26 has the tables of Unicode 15.0, `regex-syntax` those of 16.0. The difference is small enough to undo here:
//! characters assigned after 15.0 count as unassigned, one character moves back to its old category, and folds newer
//! than 15.0 are dropped. Surrogates, which Go's classes may hold, cannot occur in a `str` and are left out.

use std::sync::OnceLock;

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

pub(super) type Set = ClassUnicode;

/// The scripts that a pattern can name. Go strips underscores from the name in the pattern but not from the keys of its
/// table, so scripts of two words cannot be named at all.
#[rustfmt::skip]
const SCRIPTS: &[&str] = &[
    "Adlam", "Ahom", "Arabic", "Armenian", "Avestan", "Balinese", "Bamum", "Batak", "Bengali", "Bhaiksuki",
    "Bopomofo", "Brahmi", "Braille", "Buginese", "Buhid", "Carian", "Chakma", "Cham", "Cherokee", "Chorasmian",
    "Common", "Coptic", "Cuneiform", "Cypriot", "Cyrillic", "Deseret", "Devanagari", "Dogra", "Duployan", "Elbasan",
    "Elymaic", "Ethiopic", "Georgian", "Glagolitic", "Gothic", "Grantha", "Greek", "Gujarati", "Gurmukhi", "Han",
    "Hangul", "Hanunoo", "Hatran", "Hebrew", "Hiragana", "Inherited", "Javanese", "Kaithi", "Kannada", "Katakana",
    "Kawi", "Kharoshthi", "Khmer", "Khojki", "Khudawadi", "Lao", "Latin", "Lepcha", "Limbu", "Lisu", "Lycian",
    "Lydian", "Mahajani", "Makasar", "Malayalam", "Mandaic", "Manichaean", "Marchen", "Medefaidrin", "Miao", "Modi",
    "Mongolian", "Mro", "Multani", "Myanmar", "Nabataean", "Nandinagari", "Newa", "Nko", "Nushu", "Ogham", "Oriya",
    "Osage", "Osmanya", "Palmyrene", "Phoenician", "Rejang", "Runic", "Samaritan", "Saurashtra", "Sharada",
    "Shavian", "Siddham", "Sinhala", "Sogdian", "Soyombo", "Sundanese", "Syriac", "Tagalog", "Tagbanwa", "Takri",
    "Tamil", "Tangsa", "Tangut", "Telugu", "Thaana", "Thai", "Tibetan", "Tifinagh", "Tirhuta", "Toto", "Ugaritic",
    "Vai", "Vithkuqi", "Wancho", "Yezidi", "Yi",
];

/// The categories by their short names and, if Go knows one, by their long names (after [`canonical`]).
#[rustfmt::skip]
const CATEGORIES: &[(&str, &str)] = &[
    ("C", "Other"), ("Cc", "Control"), ("Cf", "Format"), ("Cn", "Unassigned"), ("Co", "Privateuse"), ("Cs", "Surrogate"),
    ("L", "Letter"), ("Lc", "Casedletter"), ("Ll", "Lowercaseletter"), ("Lm", "Modifierletter"), ("Lo", "Otherletter"),
    ("Lt", "Titlecaseletter"), ("Lu", "Uppercaseletter"), ("M", "Mark"), ("Mc", "Spacingmark"), ("Me", "Enclosingmark"),
    ("Mn", "Nonspacingmark"), ("N", "Number"), ("Nd", "Decimalnumber"), ("Nl", "Letternumber"), ("No", "Othernumber"),
    ("P", "Punctuation"), ("Pc", "Connectorpunctuation"), ("Pd", "Dashpunctuation"), ("Pe", "Closepunctuation"),
    ("Pf", "Finalpunctuation"), ("Pi", "Initialpunctuation"), ("Po", "Otherpunctuation"), ("Ps", "Openpunctuation"),
    ("S", "Symbol"), ("Sc", "Currencysymbol"), ("Sk", "Modifiersymbol"), ("Sm", "Mathsymbol"), ("So", "Othersymbol"),
    ("Z", "Separator"), ("Zl", "Lineseparator"), ("Zp", "Paragraphseparator"), ("Zs", "Spaceseparator"),
    ("M", "Combiningmark"), ("Cc", "Cntrl"), ("Nd", "Digit"), ("P", "Punct"),
];

/// U+1171E was a nonspacing mark in 15.0 and is a spacing one in 16.0.
const MOVED: char = '\u{1171e}';

/// Pairs that fold into each other since Unicode 15.1.
const LATE_FOLDS: [char; 6] = ['\u{390}', '\u{1fd3}', '\u{3b0}', '\u{1fe3}', '\u{fb05}', '\u{fb06}'];

pub(super) fn set(ranges: &[(char, char)]) -> Set {
    Set::new(ranges.iter().map(|&(lo, hi)| ClassUnicodeRange::new(lo, hi)))
}

/// The set of code points `lo..=hi` without the surrogates.
pub(super) fn range(lo: u32, hi: u32) -> Set {
    // Moving both ends out of the surrogate gap empties a range that lies within it.
    let lo = if (0xd800..0xe000).contains(&lo) { 0xe000 } else { lo };
    let hi = if (0xd800..0xe000).contains(&hi) { 0xd7ff } else { hi };
    match (char::from_u32(lo), char::from_u32(hi)) {
        (Some(lo), Some(hi)) if lo <= hi => set(&[(lo, hi)]),
        _ => Set::empty(),
    }
}

/// Evaluates a `regex-syntax` property expression.
fn property(expression: &str) -> Set {
    match regex_syntax::parse(expression).map(regex_syntax::hir::Hir::into_kind) {
        Ok(HirKind::Class(Class::Unicode(class))) => class,
        Ok(HirKind::Literal(literal)) => {
            let mut set = Set::empty();
            if let Some(c) = std::str::from_utf8(&literal.0).ok().and_then(|s| s.chars().next()) {
                set.push(ClassUnicodeRange::new(c, c));
            }
            set
        }
        _ => Set::empty(),
    }
}

/// The characters assigned in Unicode 15.0.
fn known() -> &'static Set {
    static KNOWN: OnceLock<Set> = OnceLock::new();
    KNOWN.get_or_init(|| property(r"\p{age=15.0}"))
}

/// A general category by its short name.
fn category(name: &str) -> Set {
    if name == "Cs" {
        return Set::empty();
    }
    let mut set = property(&format!(r"\p{{gc={name}}}"));
    if name == "C" || name == "Cn" {
        let mut unknown = known().clone();
        unknown.negate();
        set.union(&unknown);
        return set;
    }
    set.intersect(known());
    match name {
        "Mc" => set.difference(&range(MOVED.into(), MOVED.into())),
        "Mn" => set.union(&range(MOVED.into(), MOVED.into())),
        _ => {}
    }
    set
}

/// Upper-case first letter, lower-case rest, no separators: the form in which Go looks names up.
fn canonical(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')) {
        out.push(if out.is_empty() {
            c.to_ascii_uppercase()
        } else {
            c.to_ascii_lowercase()
        });
    }
    out
}

/// The set of `\p{name}`, folded on request; `None` for an unknown name.
pub(super) fn unicode(name: &str, fold_case: bool) -> Option<Set> {
    let name = canonical(name);
    let set = match name.as_str() {
        "Any" => range(0, 0x10_ffff),
        "Assigned" => {
            let mut set = category("Cn");
            set.negate();
            return Some(set);
        }
        "Ascii" => range(0, 0x7f),
        // Go has no fold table for cased letters, so the flag has no effect there.
        "Lc" | "Casedletter" => return Some(category("LC")),
        _ => match CATEGORIES.iter().find(|(short, long)| *short == name || *long == name) {
            Some((short, _)) => category(short),
            None => {
                SCRIPTS.binary_search(&name.as_str()).ok()?;
                let mut set = property(&format!(r"\p{{sc={name}}}"));
                set.intersect(known());
                set
            }
        },
    };
    Some(if fold_case { fold(&set) } else { set })
}

/// Closes a set under simple case folding.
pub(super) fn fold(set: &Set) -> Set {
    let mut closed = set.clone();
    if set.is_ascii() {
        // The common case: only `k` and `s` have relatives outside ASCII.
        closed.union(&Set::new(
            set.ranges()
                .iter()
                .flat_map(|range| range.start()..=range.end())
                .flat_map(ascii_relatives)
                .map(|c| ClassUnicodeRange::new(c, c)),
        ));
        return closed;
    }
    let mut foldable = set.clone();
    foldable.intersect(known());
    foldable.difference(&self::set(&LATE_FOLDS.map(|c| (c, c))));
    foldable.case_fold_simple();
    foldable.intersect(known());
    closed.union(&foldable);
    closed
}

/// The case variants of an ASCII character; a character without case yields itself.
fn ascii_relatives(c: char) -> impl Iterator<Item = char> {
    let far = match c {
        'k' | 'K' => Some('\u{212a}'),
        's' | 'S' => Some('\u{17f}'),
        _ => None,
    };
    let near = if c.is_ascii_lowercase() {
        c.to_ascii_uppercase()
    } else {
        c.to_ascii_lowercase()
    };
    std::iter::once(near).chain(far)
}

/// Reports whether a character may be part of a name in a replacement template: a letter, a decimal digit or `_`.
pub(super) fn is_name_char(c: char) -> bool {
    static LETTERS: OnceLock<(Set, Set)> = OnceLock::new();
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    let (letters, digits) = LETTERS.get_or_init(|| (category("L"), category("Nd")));
    contains(letters, c) || contains(digits, c)
}

fn contains(set: &Set, c: char) -> bool {
    set.ranges()
        .binary_search_by(|range| {
            if range.end() < c {
                std::cmp::Ordering::Less
            } else if range.start() > c {
                std::cmp::Ordering::Greater
            } else {
                std::cmp::Ordering::Equal
            }
        })
        .is_ok()
}

/// The group of `\d`, `\s`, `\w` or their negations.
pub(super) fn perl(letter: u8, fold_case: bool) -> Option<Set> {
    let ranges: &[(char, char)] = match letter.to_ascii_lowercase() {
        b'd' => &[('0', '9')],
        b's' => &[('\t', '\n'), ('\x0c', '\r'), (' ', ' ')],
        b'w' => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
        _ => return None,
    };
    Some(group(ranges, letter.is_ascii_uppercase(), fold_case))
}

/// The group named between `[:` and `:]`; a leading `^` negates.
pub(super) fn posix(name: &str, fold_case: bool) -> Option<Set> {
    let (negated, name) = name.strip_prefix('^').map_or((false, name), |rest| (true, rest));
    let ranges: &[(char, char)] = match name {
        "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        "alpha" => &[('A', 'Z'), ('a', 'z')],
        "ascii" => &[('\0', '\x7f')],
        "blank" => &[('\t', '\t'), (' ', ' ')],
        "cntrl" => &[('\0', '\x1f'), ('\x7f', '\x7f')],
        "digit" => &[('0', '9')],
        "graph" => &[('!', '~')],
        "lower" => &[('a', 'z')],
        "print" => &[(' ', '~')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => &[('\t', '\r'), (' ', ' ')],
        "upper" => &[('A', 'Z')],
        "word" => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
        "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        _ => return None,
    };
    Some(group(ranges, negated, fold_case))
}

/// Folds before it negates.
fn group(ranges: &[(char, char)], negated: bool, fold_case: bool) -> Set {
    let mut group = set(ranges);
    if fold_case {
        group = fold(&group);
    }
    if negated {
        group.negate();
    }
    group
}
