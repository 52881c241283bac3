//! An estimate of the memory that decoding makes of a body, from the body's bytes while they arrive.
//!
//! The estimate is an upper bound: a map takes far more memory than its text (`{"a":0}` takes a node for eleven entries), and the defaults of a
//! kind fill a map that is empty in the text. `body/weight/` has the forms of a body.

mod block;
mod cbor;
mod flow;
mod protobuf;

use block::Block;
use cbor::Cbor;
use flow::Flow;

/// The memory of a map: a node of a B-tree, which has room for eleven entries, and the texts of the defaults that its kind may have.
const MAP: usize = 640 + 96;
/// The memory of a further entry of a map with more entries than one node has.
const ENTRY: usize = 112;
/// The memory of an item of a list. A list that grows has up to twice its items.
const ITEM: usize = 64;
/// The memory of a list with an item, besides that item: a list has room for four.
const LIST: usize = 64;
/// The memory of a text besides its bytes: what the allocator adds.
const TEXT: usize = 8;
/// The first bytes of an object in protobuf.
const PROTOBUF: &[u8] = b"k8s\0";

/// An estimate of the memory of a body, together with everything that is made of it: the decoded object with its copies, and its forms for
/// webhooks and for the upstream API server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weight {
    bytes: usize,
    /// The memory of the maps, lists and values, their texts aside.
    values: usize,
    form: Form,
}

/// The form of a body, which its first byte shows.
#[derive(Clone, Copy, Debug, Default)]
enum Form {
    #[default]
    Unknown,
    /// JSON, or YAML in the same form.
    Flow(Flow),
    /// Any other YAML.
    Block(Block),
    /// CBOR, unless it is YAML that starts with a character beyond ASCII or with a byte order mark: the larger of both counts.
    Binary { cbor: Cbor, in_cbor: usize, block: Block, in_block: usize },
}

impl Weight {
    /// The copies of the decoded object at the same time.
    const COPIES: usize = 4;
    /// The copies of the text.
    const TEXTS: usize = 2;

    /// Adds data.
    pub fn add(&mut self, data: &[u8]) {
        self.bytes += data.len();
        let mut rest = data;
        while !rest.is_empty() {
            rest = match &mut self.form {
                Form::Unknown => {
                    let at = rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len());
                    let rest = rest.get(at..).unwrap_or_default();
                    self.form = match rest.first() {
                        None => Form::Unknown,
                        Some(b'{' | b'[') => Form::Flow(Flow::default()),
                        Some(0x80..) => {
                            Form::Binary { cbor: Cbor::default(), in_cbor: 0, block: Block::default(), in_block: 0 }
                        }
                        Some(_) => Form::Block(Block::default()),
                    };
                    rest
                }
                Form::Flow(flow) => {
                    let rest = flow.add(rest, &mut self.values);
                    if !rest.is_empty() {
                        self.form = Form::Block(Block::within_flow());
                    }
                    rest
                }
                Form::Block(block) => block.add(rest, &mut self.values),
                Form::Binary { cbor, in_cbor, block, in_block } => {
                    cbor.add(rest, in_cbor);
                    block.add(rest, in_block);
                    self.values = (*in_cbor).max(*in_block);
                    &[]
                }
            }
        }
    }

    /// Ends the body, whose data has been added. Protobuf shows its messages only as a whole.
    pub fn complete(&mut self, body: &[u8]) {
        if let Some(values) = body.strip_prefix(PROTOBUF).and_then(protobuf::values) {
            self.values = values;
        }
    }

    /// The number of bytes so far.
    pub fn bytes(self) -> usize {
        self.bytes
    }

    /// The memory of the decoded body, once.
    pub fn decoded(self) -> usize {
        decoded(self.bytes, self.values)
    }

    /// The most memory that the decoded object of a body may take, if its weight must be at most `bytes`.
    pub(crate) fn most_decoded(bytes: usize) -> usize {
        bytes / Self::COPIES
    }

    /// The memory for a body of `length` bytes that goes on as it began.
    pub fn of(self, length: usize) -> usize {
        let length = length.max(self.bytes);
        let values =
            (self.values as u128 * length as u128 / self.bytes.max(1) as u128).try_into().unwrap_or(usize::MAX);
        let copies = decoded(length, values).saturating_mul(Self::COPIES);
        copies.saturating_add(length.saturating_mul(Self::TEXTS))
    }
}

/// The bytes of the texts take an eighth more, as the allocator rounds their lengths up.
fn decoded(bytes: usize, values: usize) -> usize {
    values.saturating_add(bytes).saturating_add(bytes / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(text: &[u8]) -> Weight {
        let mut whole = Weight::default();
        whole.add(text);
        whole.complete(text);
        let mut pieces = Weight::default();
        text.chunks(1).for_each(|byte| pieces.add(byte));
        pieces.complete(text);
        assert_eq!((pieces.bytes, pieces.values), (whole.bytes, whole.values), "{}", text.escape_ascii());
        whole
    }

    #[test]
    fn maps_lists_and_texts_have_values_and_their_bytes_have_none() {
        for (text, values) in [
            ("", 0),
            ("{}", MAP),
            (r#"{"a":0}"#, MAP + TEXT),
            (r#"{"a":"b,c:[{\"}]"}"#, MAP + 2 * TEXT),
            (r#" { "a" : [ ] , "b" : [ true ] } "#, MAP + 2 * TEXT + LIST + ITEM),
            (r#"{"f:a":{},"b":{}}"#, 2 * MAP + 2 * TEXT),
            (r#"[{},{"a":0},null]"#, LIST + 3 * ITEM + 3 * MAP + TEXT),
        ] {
            assert_eq!(weight(text.as_bytes()).values, values, "{text}");
        }
        let entries = |count: usize| {
            let fields: Vec<String> = (0..count).map(|number| format!(r#""{number}":0"#)).collect();
            weight(format!("{{{}}}", fields.join(",")).as_bytes()).values
        };
        assert_eq!((entries(11), entries(13)), (MAP + 11 * TEXT, MAP + 13 * TEXT + 2 * ENTRY));
    }

    #[test]
    fn a_document_that_no_json_has_is_weighed_as_yaml() {
        for (text, maps) in [
            ("a: 0\nb: 1\n", 1),
            ("a:\n  b: 0\n  c: 0\n", 2),
            ("- a: 0\n  b: 0\n- a: 0\n", 2),
            ("-\n-\n", 2),
            ("{a: 0, b: 0}", 2),
            ("[a: 0, b: 0]", 2),
            (r#"[ "a": 0, "b": 0 ]"#, 2),
            (r#"{a: x"y, b: {c: 0}}"#, 2),
            ("[~, null]", 2),
            ("a: &a {b: 0}\nc: [*a, *a]\n", 4),
            ("é: [{a: 0}, {a: 0}]", 3),
            ("\u{feff}[{a: 0}, {a: 0}]", 2),
        ] {
            let values = weight(text.as_bytes()).values;
            assert!((maps * MAP..(maps + 7) * (MAP + ENTRY)).contains(&values), "{text:?}: {values}");
        }
    }

    #[test]
    fn yaml_in_utf_16_is_weighed_as_in_utf_8() {
        let text = "- a: 0\n  b: {c: 0}\n- {d: 0}\n";
        for bytes in [u16::to_le_bytes, u16::to_be_bytes] {
            let encoded: Vec<u8> = "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(bytes).collect();
            assert!(weight(&encoded).values >= weight(text.as_bytes()).values);
        }
    }

    #[test]
    fn an_object_in_protobuf_is_weighed_by_its_messages() {
        let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
        let body = |object: &[u8]| weight(&[PROTOBUF, &field(2, object)].concat()).values;
        let empty = body(b"");
        assert!(body(&field(1, b"some text, {}")) - empty < MAP);
        assert!(body(&field(1, b"").repeat(50)) > 50 * MAP);
        assert!(body(&field(1, br#"{"f:a":{"f:b":{},"f:c":{}}}"#)) - empty > 2 * MAP);
        assert!(body(&field(1, &field(1, &field(1, b"")))) - empty > 3 * MAP);
    }

    #[test]
    fn a_body_goes_on_as_it_began() {
        let mut weight = Weight::default();
        assert_eq!(weight.of(800), decoded(800, 0) * Weight::COPIES + 800 * Weight::TEXTS);
        weight.add(b"[1,1,1,1");
        assert_eq!(weight.of(0), weight.of(8));
        assert_eq!(weight.of(80), 10 * weight.of(8));
        assert_eq!(weight.of(usize::MAX), usize::MAX);
    }
}
