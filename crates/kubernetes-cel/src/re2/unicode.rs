//! Unicode as in Go: the names of its classes, and no characters assigned after version 15.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind};
use std::sync::LazyLock;

/// General categories by their short names.
const CATEGORIES: &str = "C Cc Cf Cn Co Cs L LC Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z \
    Zl Zp Zs";

/// Other names of general categories, in canonical form.
const ALIASES: [(&str, &str); 42] = [
    ("Casedletter", "LC"),
    ("Closepunctuation", "Pe"),
    ("Cntrl", "Cc"),
    ("Combiningmark", "M"),
    ("Connectorpunctuation", "Pc"),
    ("Control", "Cc"),
    ("Currencysymbol", "Sc"),
    ("Dashpunctuation", "Pd"),
    ("Decimalnumber", "Nd"),
    ("Digit", "Nd"),
    ("Enclosingmark", "Me"),
    ("Finalpunctuation", "Pf"),
    ("Format", "Cf"),
    ("Initialpunctuation", "Pi"),
    ("Letter", "L"),
    ("Letternumber", "Nl"),
    ("Lineseparator", "Zl"),
    ("Lowercaseletter", "Ll"),
    ("Mark", "M"),
    ("Mathsymbol", "Sm"),
    ("Modifierletter", "Lm"),
    ("Modifiersymbol", "Sk"),
    ("Nonspacingmark", "Mn"),
    ("Number", "N"),
    ("Openpunctuation", "Ps"),
    ("Other", "C"),
    ("Otherletter", "Lo"),
    ("Othernumber", "No"),
    ("Otherpunctuation", "Po"),
    ("Othersymbol", "So"),
    ("Paragraphseparator", "Zp"),
    ("Privateuse", "Co"),
    ("Punct", "P"),
    ("Punctuation", "P"),
    ("Separator", "Z"),
    ("Spaceseparator", "Zs"),
    ("Spacingmark", "Mc"),
    ("Surrogate", "Cs"),
    ("Symbol", "S"),
    ("Titlecaseletter", "Lt"),
    ("Unassigned", "Cn"),
    ("Uppercaseletter", "Lu"),
];

/// Scripts. Go does not find scripts with a name of several words.
const SCRIPTS: &str = "Adlam Ahom Arabic Armenian Avestan Balinese Bamum Batak Bengali Bhaiksuki Bopomofo Brahmi Braille \
    Buginese Buhid Carian Chakma Cham Cherokee Chorasmian Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Dogra \
    Duployan Elbasan Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati Gurmukhi Han Hangul Hanunoo Hatran \
    Hebrew Hiragana Inherited Javanese Kaithi Kannada Katakana Kawi Kharoshthi Khmer Khojki Khudawadi Lao Latin Lepcha Limbu \
    Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen Medefaidrin Miao Modi Mongolian Mro Multani \
    Myanmar Nabataean Nandinagari Newa Nko Nushu Ogham Oriya Osage Osmanya Palmyrene Phoenician Rejang Runic Samaritan \
    Saurashtra Sharada Shavian Siddham Sinhala Sogdian Soyombo Sundanese Syriac Tagalog Tagbanwa Takri Tamil Tangsa Tangut \
    Telugu Thaana Thai Tibetan Tifinagh Tirhuta Toto Ugaritic Vai Vithkuqi Wancho Yezidi Yi";

/// Characters that Unicode 15.0 assigns; noncharacters have an age too, and are excluded.
static ASSIGNED: LazyLock<ClassUnicode> = LazyLock::new(|| {
    let mut assigned = read(r"\p{Age:15.0}");
    assigned.difference(&read(r"\p{gc:Cn}"));
    assigned
});

/// Pairs of characters that differ only in case since Unicode 15.1.
const FOLDED_LATER: [char; 6] = ['\u{390}', '\u{1fd3}', '\u{3b0}', '\u{1fe3}', '\u{fb05}', '\u{fb06}'];
/// A mark that became a spacing mark in Unicode 16.
const SPACING_LATER: char = '\u{1171e}';

/// The characters of a class, by its name in `\p{…}`; `None` if there is no such class.
pub(super) fn class(name: &str, folds: bool) -> Option<ClassUnicode> {
    let name = canonical(name);
    let mut class = named(&name)?;
    // Go has no folding for LC.
    if folds && !matches!(name.as_str(), "Lc" | "Casedletter") {
        fold(&mut class);
    }
    Some(class)
}

fn named(name: &str) -> Option<ClassUnicode> {
    let assigned = |property: String| {
        let mut class = read(&property);
        class.intersect(&ASSIGNED);
        Some(class)
    };
    let category = |name: &str| match name {
        // A text contains no surrogates.
        "Cs" => Some(ClassUnicode::new([])),
        // In Go, characters that were assigned later are still unassigned.
        "Cn" => Some(unassigned()),
        "C" => {
            let mut class = read(r"\p{gc:C}");
            class.union(&unassigned());
            Some(class)
        }
        "Mc" => {
            let mut class = assigned(r"\p{gc:Mc}".to_owned())?;
            class.difference(&characters([SPACING_LATER]));
            Some(class)
        }
        "Mn" => {
            let mut class = assigned(r"\p{gc:Mn}".to_owned())?;
            class.union(&characters([SPACING_LATER]));
            Some(class)
        }
        name => assigned(format!(r"\p{{gc:{name}}}")),
    };
    match name {
        "Any" => Some(ClassUnicode::new([ClassUnicodeRange::new('\0', char::MAX)])),
        "Assigned" => Some(ASSIGNED.clone()),
        "Ascii" => Some(ClassUnicode::new([ClassUnicodeRange::new('\0', '\x7f')])),
        "Lc" => category("LC"),
        name if CATEGORIES.split_whitespace().any(|each| each == name) => category(name),
        name if SCRIPTS.split_whitespace().any(|each| each == name) => assigned(format!(r"\p{{sc:{name}}}")),
        name => ALIASES.iter().find(|(alias, _)| *alias == name).and_then(|(_, short)| category(short)),
    }
}

/// Adds the case variants of all characters (`unicode.SimpleFold`).
pub(super) fn fold(class: &mut ClassUnicode) {
    let mut folded = class.clone();
    folded.intersect(&ASSIGNED);
    folded.difference(&characters(FOLDED_LATER));
    // Fails only without the tables, which are compiled in.
    if folded.try_case_fold_simple().is_ok() {
        folded.intersect(&ASSIGNED);
        class.union(&folded);
    }
}

fn characters(each: impl IntoIterator<Item = char>) -> ClassUnicode {
    ClassUnicode::new(each.into_iter().map(|character| ClassUnicodeRange::new(character, character)))
}

fn unassigned() -> ClassUnicode {
    let mut class = ASSIGNED.clone();
    class.negate();
    class
}

/// `syntax.canonicalName`: a capital, then lower-case letters, without separators.
fn canonical(name: &str) -> String {
    let mut letters = name.chars().filter(|letter| !matches!(letter, '_' | '-' | ' '));
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters.map(|letter| letter.to_ascii_lowercase())).collect()
}

/// The characters of a property; empty if the property does not exist.
fn read(property: &str) -> ClassUnicode {
    match regex_syntax::parse(property).map(Hir::into_kind) {
        Ok(HirKind::Class(Class::Unicode(class))) => class,
        Ok(HirKind::Literal(literal)) => characters(str::from_utf8(&literal.0).unwrap_or("").chars()),
        _ => ClassUnicode::new([]),
    }
}
