//! JSONPath, as kubectl and the columns of definitions use it (`k8s.io/client-go/util/jsonpath`): fields, items, slices, unions, wildcards,
//! filters and recursive descent.

use crate::go_text::go_print;
use serde_json::Value;

/// The values that one path may select. Further ones are left out.
const MAX_VALUES: usize = 10_000;
/// The nesting of filters in filters.
const MAX_DEPTH: usize = 8;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::embedded) struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Every,
    Descend,
    Slice { from: Option<i64>, to: Option<i64>, by: i64, is_single: bool },
    Union(Vec<Step>),
    Filter { left: Operand, test: Test, right: Operand },
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Path(JsonPath),
    Constant(Value),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Test {
    Exists,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Parses a path such as `.status.conditions[?(@.type=="Ready")].status`; `None` if it is malformed.
    pub(in crate::embedded) fn parse(text: &str) -> Option<Self> {
        Self::parse_at(text, 0)
    }

    fn parse_at(text: &str, depth: usize) -> Option<Self> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut steps = Vec::new();
        let mut rest = text.strip_prefix(['@', '$']).unwrap_or(text);
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix("..") {
                steps.push(Step::Descend);
                rest = if after.starts_with('[') { after } else { field(after, &mut steps)? };
            } else if let Some(after) = rest.strip_prefix('.') {
                rest = if after.starts_with('[') || after.is_empty() { after } else { field(after, &mut steps)? };
            } else if let Some(after) = rest.strip_prefix('[') {
                let end = closing(after)?;
                steps.push(brackets(after.get(..end)?, depth)?);
                rest = after.get(end + 1..)?;
            } else {
                rest = field(rest, &mut steps)?;
            }
        }
        Some(Self(steps))
    }

    /// The selected values; `None` if an item is missing. Missing fields select nothing.
    pub(in crate::embedded) fn select<'v>(&self, value: &'v Value) -> Option<Vec<&'v Value>> {
        let mut values = vec![value];
        for step in &self.0 {
            let mut next = Vec::new();
            for value in values {
                step.apply(value, &mut next)?;
            }
            next.truncate(MAX_VALUES);
            values = next;
        }
        Some(values)
    }
}

/// Reads a field's name, in which a backslash keeps a dot.
fn field<'t>(text: &'t str, steps: &mut Vec<Step>) -> Option<&'t str> {
    let (mut name, mut letters) = (String::new(), text.char_indices());
    let mut end = text.len();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => name.push(letters.next()?.1),
            '.' | '[' => {
                end = at;
                break;
            }
            letter => name.push(letter),
        }
    }
    match &*name {
        "" => return None,
        "*" => steps.push(Step::Every),
        _ => steps.push(Step::Field(name)),
    }
    text.get(end..)
}

/// The place of the bracket that closes the one before the text.
fn closing(text: &str) -> Option<usize> {
    let (mut open, mut quote) = (0, None);
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match (quote, letter) {
            (Some(_), '\\') => drop(letters.next()),
            (Some(mark), letter) if mark == letter => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '[') => open += 1,
            (None, ']') if open == 0 => return Some(at),
            (None, ']') => open -= 1,
            (None, _) => {}
        }
    }
    None
}

fn brackets(text: &str, depth: usize) -> Option<Step> {
    let text = text.trim();
    if let Some(filter) = text.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return self::filter(filter, depth);
    }
    if text == "*" {
        return Some(Step::Every);
    }
    if let Some(name) = quoted(text) {
        return Some(Step::Field(name));
    }
    if text.contains(',') {
        return text.split(',').map(|part| brackets(part, depth)).collect::<Option<_>>().map(Step::Union);
    }
    let number = |text: &str| match text {
        "" => Some(None),
        text => text.parse::<i64>().ok().map(Some),
    };
    let mut parts = text.split(':');
    let from = number(parts.next()?)?;
    match (parts.next(), parts.next(), parts.next()) {
        (None, ..) => Some(Step::Slice { from: Some(from?), to: None, by: 1, is_single: true }),
        (Some(to), by, None) => {
            let by = by.map_or(Some(None), number)?.unwrap_or(1);
            (by > 0).then_some(Step::Slice { from, to: number(to)?, by, is_single: false })
        }
        _ => None,
    }
}

/// A text without the quotes around it.
fn quoted(text: &str) -> Option<String> {
    let mark = text.chars().next().filter(|mark| matches!(mark, '\'' | '"'))?;
    let within = text.strip_prefix(mark)?.strip_suffix(mark)?;
    (!within.contains(mark)).then(|| within.replace('\\', ""))
}

fn filter(text: &str, depth: usize) -> Option<Step> {
    const TESTS: [(&str, Test); 6] = [
        ("==", Test::Equal),
        ("!=", Test::Unequal),
        ("<=", Test::LessOrEqual),
        (">=", Test::GreaterOrEqual),
        ("<", Test::Less),
        (">", Test::Greater),
    ];
    let operand = |text: &str| {
        let text = text.trim();
        if let Some(text) = quoted(text) {
            return Some(Operand::Constant(text.into()));
        }
        match text {
            "true" | "false" => Some(Operand::Constant((text == "true").into())),
            text if text.starts_with(['@', '$', '.']) => JsonPath::parse_at(text, depth + 1).map(Operand::Path),
            text => serde_json::from_str::<Value>(text).ok().filter(Value::is_number).map(Operand::Constant),
        }
    };
    let places = TESTS.iter().filter_map(|(sign, test)| Some((text.find(sign)?, sign, *test)));
    match places.min_by_key(|(at, sign, _)| (*at, std::cmp::Reverse(sign.len()))) {
        None => {
            let left = operand(text)?;
            Some(Step::Filter { left, test: Test::Exists, right: Operand::Constant(Value::Null) })
        }
        Some((at, sign, test)) => {
            let (left, right) = (operand(text.get(..at)?)?, operand(text.get(at + sign.len()..)?)?);
            Some(Step::Filter { left, test, right })
        }
    }
}

impl Step {
    fn apply<'v>(&self, value: &'v Value, found: &mut Vec<&'v Value>) -> Option<()> {
        match (self, value) {
            (Self::Field(name), Value::Object(fields)) => found.extend(fields.get(name)),
            (Self::Every, Value::Object(fields)) => found.extend(fields.values()),
            (Self::Every, Value::Array(items)) => found.extend(items),
            (Self::Descend, value) => descend(value, found),
            (Self::Slice { from, to, by, is_single }, Value::Array(items)) => {
                let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
                let place = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
                let from = place(from.unwrap_or(0));
                let to = if *is_single { from.saturating_add(1) } else { place(to.unwrap_or(length)).min(length) };
                if *is_single && !(0..length).contains(&from) {
                    return None;
                }
                let step = usize::try_from(*by).unwrap_or(usize::MAX);
                let range = usize::try_from(from).ok()?..usize::try_from(to).ok()?;
                found.extend(range.step_by(step).filter_map(|at| items.get(at)));
            }
            (Self::Union(steps), value) => steps.iter().try_for_each(|step| step.apply(value, found))?,
            (Self::Filter { left, test, right }, value) => {
                let holds = |item: &&Value| left.passes(*test, right, item);
                match value {
                    Value::Array(items) => found.extend(items.iter().filter(holds)),
                    Value::Object(fields) => found.extend(fields.values().filter(holds)),
                    _ => {}
                }
            }
            _ => {}
        }
        Some(())
    }
}

fn descend<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    if found.len() >= MAX_VALUES {
        return;
    }
    found.push(value);
    match value {
        Value::Object(fields) => fields.values().for_each(|value| descend(value, found)),
        Value::Array(items) => items.iter().for_each(|value| descend(value, found)),
        _ => {}
    }
}

impl Operand {
    fn value<'v>(&'v self, item: &'v Value) -> Option<&'v Value> {
        match self {
            Self::Constant(value) => Some(value),
            Self::Path(path) => path.select(item)?.first().copied(),
        }
    }

    fn passes(&self, test: Test, right: &Self, item: &Value) -> bool {
        let Some(left) = self.value(item) else { return false };
        if test == Test::Exists {
            return true;
        }
        let Some(right) = right.value(item) else { return false };
        let order = match (left, right) {
            (Value::Number(left), Value::Number(right)) => left.as_f64().partial_cmp(&right.as_f64()),
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (left, right) => (left == right).then_some(std::cmp::Ordering::Equal),
        };
        match test {
            Test::Exists => true,
            Test::Equal => order.is_some_and(std::cmp::Ordering::is_eq),
            Test::Unequal => !order.is_some_and(std::cmp::Ordering::is_eq),
            Test::Less => order.is_some_and(std::cmp::Ordering::is_lt),
            Test::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
            Test::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
            Test::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
        }
    }
}

/// A value as the text of a cell or of a selector (`JSONPath.PrintResults`); `None` for null.
pub(in crate::embedded) fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Object(_) | Value::Array(_) => Some(value.to_string()),
        value => Some(go_print(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selects_what_the_path_names() {
        let object = json!({
            "spec": {"size": 3, "a.b": "dotted", "list": [1, 2, 3, 4]},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "age": 1}, {"type": "Synced", "status": "False", "age": 5},
            ]},
        });
        for (path, expected) in [
            (".spec.size", json!([3])),
            (".spec.none.x", json!([])),
            (r".spec.a\.b", json!(["dotted"])),
            (".spec['a.b']", json!(["dotted"])),
            (".spec.list[1]", json!([2])),
            (".spec.list[-1]", json!([4])),
            (".spec.list[1:3]", json!([2, 3])),
            (".spec.list[::2]", json!([1, 3])),
            (".spec.list[0,2]", json!([1, 3])),
            (".status.conditions[*].type", json!(["Ready", "Synced"])),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!(["True"])),
            (".status.conditions[?(@.type=='Synced')].status", json!(["False"])),
            (".status.conditions[?(@.age>=2)].type", json!(["Synced"])),
            (".status.conditions[?(@.none)].type", json!([])),
            ("..type", json!(["Ready", "Synced"])),
        ] {
            let found = JsonPath::parse(path).unwrap();
            let found: Vec<Value> = found.select(&object).unwrap().into_iter().cloned().collect();
            assert_eq!(Value::from(found), expected, "{path}");
        }
        assert_eq!(JsonPath::parse(".spec.list[9]").unwrap().select(&object), None);
    }

    #[test]
    fn a_malformed_path_is_none() {
        for path in [".a[", ".a[x]", ".a[?(@.b==)]", ".a[1:2:3:4]", ".a..", "a[?(]"] {
            assert_eq!(JsonPath::parse(path), None, "{path}");
        }
    }
}
