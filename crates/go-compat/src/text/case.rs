//! Letter case, character by character.
//!
//! Upstream counterpart: Go's `strings.ToUpper`, `ToLower` and `EqualFold`, which know only mappings of one character to
//! one character: `ß` has no upper case.

/// Go's `strings.ToUpper`.
pub fn upper(text: &str) -> String {
    text.chars().map(upper_char).collect()
}

/// Go's `strings.ToLower`.
pub fn lower(text: &str) -> String {
    text.chars().map(lower_char).collect()
}

/// Go's `strings.EqualFold`.
pub fn equal_fold(a: &str, b: &str) -> bool {
    a.chars().map(fold).eq(b.chars().map(fold))
}

fn upper_char(c: char) -> char {
    let mut mapped = c.to_uppercase();
    match (mapped.next(), mapped.next()) {
        (Some(one), None) => one,
        // Greek letters with an iota subscript also have an upper case of one character.
        _ => {
            let shift = match c {
                '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => 8,
                '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => 9,
                _ => 0,
            };
            char::from_u32(u32::from(c) + shift).unwrap_or(c)
        }
    }
}

fn lower_char(c: char) -> char {
    let mut mapped = c.to_lowercase();
    // The only letter with a longer lower case is the dotted I; its first character is the simple mapping.
    mapped.next().unwrap_or(c)
}

/// Maps all characters that differ only in case to the same character.
fn fold(c: char) -> char {
    match c {
        // Turkish letters fold to themselves.
        'İ' | 'ı' => c,
        c => lower_char(upper_char(c)),
    }
}
