//! Ranges of addresses: `library.CIDR` of Kubernetes.

use super::ip::{self, Ip};
use super::{Result, net, opaque, overload, same, size, traversal, traversal_of_first};
use crate::function::Function;
use crate::types::Type;
use crate::value::{Error, Opaque, Value};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Functions that make and read ranges.
pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "cidr",
        overloads: &[overload("string_to_cidr", "cidr(string): net.CIDR")],
        call: |arguments| match arguments {
            [Value::String(text)] => Ok(Cidr::read(text)?.value()),
            _ => Err(Error::NoSuchOverload),
        },
        cost: Some(traversal_of_first),
    },
    Function {
        name: "isCIDR",
        overloads: &[overload("is_cidr", "isCIDR(string): bool")],
        call: |arguments| match arguments {
            [Value::String(text)] => Ok(Value::Bool(Cidr::read(text).is_ok())),
            _ => Err(Error::NoSuchOverload),
        },
        cost: Some(traversal_of_first),
    },
    Function {
        name: "containsIP",
        overloads: &[
            overload("cidr_contains_ip_string", "net.CIDR.containsIP(string): bool"),
            overload("cidr_contains_ip_ip", "net.CIDR.containsIP(net.IP): bool"),
        ],
        call: contains_ip,
        cost: Some(|overload, arguments, _| {
            let text = if overload == "cidr_contains_ip_string" { size(arguments, 1) } else { 0 };
            traversal(size(arguments, 0), 2.0) + traversal(text, 1.0)
        }),
    },
    Function {
        name: "containsCIDR",
        overloads: &[
            overload("cidr_contains_cidr_string", "net.CIDR.containsCIDR(string): bool"),
            overload("cidr_contains_cidr", "net.CIDR.containsCIDR(net.CIDR): bool"),
        ],
        call: contains_cidr,
        cost: Some(|overload, arguments, _| {
            let own = size(arguments, 0);
            let text = if overload == "cidr_contains_cidr_string" { size(arguments, 1) } else { 0 };
            traversal(own, 2.0) + traversal(own, 1.0) + 1 + traversal(text, 1.0)
        }),
    },
    Function {
        name: "ip",
        overloads: &[overload("cidr_ip", "net.CIDR.ip(): net.IP")],
        call: |arguments| Ok(Ip(range(arguments)?.address).value()),
        cost: None,
    },
    Function {
        name: "prefixLength",
        overloads: &[overload("cidr_prefix_length", "net.CIDR.prefixLength(): int")],
        call: |arguments| Ok(Value::Int(range(arguments)?.bits.into())),
        cost: None,
    },
    Function {
        name: "masked",
        overloads: &[overload("cidr_masked", "net.CIDR.masked(): net.CIDR")],
        call: |arguments| Ok(range(arguments)?.masked().value()),
        cost: None,
    },
    Function {
        name: "string",
        overloads: &[overload("cidr_to_string", "string(net.CIDR): string")],
        call: |arguments| Ok(Value::string(range(arguments)?.to_string())),
        cost: None,
    },
];

/// `net.CIDR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    address: IpAddr,
    bits: u8,
}

impl Cidr {
    /// `stringToCIDR`, with the error texts of `parseCIDR`.
    fn read(text: &str) -> std::result::Result<Self, Error> {
        let wrong =
            |why: String| Error::new(format!("network address parse error during conversion from string: {why}"));
        let (address, bits) = net::prefix(text)
            .map_err(|why| wrong(format!("network address parse error during conversion from string: {why}")))?;
        if ip::is_mapped(address) {
            return Err(wrong(ip::mapped(text).to_string()));
        }
        Ok(Self { address, bits })
    }

    fn value(self) -> Value<'static> {
        Value::Opaque(Arc::new(self))
    }

    fn masked(self) -> Self {
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
        };
        Self { address, ..self }
    }

    fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && Self { address, ..self }.masked() == self.masked()
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Opaque for Cidr {
    fn r#type(&self) -> Type {
        Type::opaque("net.CIDR")
    }

    fn equals(&self, other: &dyn Opaque) -> std::result::Result<bool, Error> {
        Ok(self == same::<Self>(other)?)
    }

    /// The size is that of the prefix, in bytes.
    fn size(&self) -> Option<u64> {
        Some(u64::from(self.bits).div_ceil(8))
    }

    fn to_text(&self) -> Option<String> {
        Some(self.to_string())
    }
}

fn range(arguments: &[Value<'_>]) -> std::result::Result<Cidr, Error> {
    match arguments {
        [value] => opaque(value).copied().ok_or(Error::NoSuchOverload),
        _ => Err(Error::NoSuchOverload),
    }
}

fn contains_ip<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let [range, address] = arguments else { return Err(Error::NoSuchOverload) };
    let range: Cidr = *opaque(range).ok_or(Error::NoSuchOverload)?;
    let address = match address {
        // Kubernetes drops the reason.
        Value::String(text) => ip::parse(text).map_err(|_| Error::OVERLOAD)?,
        address => opaque::<Ip>(address).ok_or(Error::NoSuchOverload)?.0,
    };
    Ok(Value::Bool(range.contains(address)))
}

fn contains_cidr<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let [range, other] = arguments else { return Err(Error::NoSuchOverload) };
    let range: Cidr = *opaque(range).ok_or(Error::NoSuchOverload)?;
    let other: Cidr = match other {
        Value::String(text) => Cidr::read(text)?,
        other => *opaque(other).ok_or(Error::NoSuchOverload)?,
    };
    Ok(Value::Bool(range.bits <= other.bits && range.contains(other.address)))
}
