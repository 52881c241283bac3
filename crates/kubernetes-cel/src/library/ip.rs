//! Addresses: `library.IP` of Kubernetes, without zones and without IPv4-mapped addresses.

use super::{net, opaque, overload, same, size, traversal, traversal_of_first};
use crate::function::Function;
use crate::types::Type;
use crate::value::{Error, Opaque, Value};
use kubernetes_object::go_text::go_quote;
use std::net::IpAddr;
use std::sync::Arc;

/// Functions that make and read addresses.
pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "ip",
        overloads: &[overload("string_to_ip", "ip(string): net.IP")],
        call: |arguments| Ok(Ip(parse(text(arguments)?)?).value()),
        // The address of a range needs no parsing.
        cost: Some(|overload, arguments, _| if overload == "cidr_ip" { 1 } else { traversal(size(arguments, 0), 1.0) }),
    },
    Function {
        name: "isIP",
        overloads: &[overload("is_ip", "isIP(string): bool")],
        call: |arguments| Ok(Value::Bool(parse(text(arguments)?).is_ok())),
        cost: Some(traversal_of_first),
    },
    Function {
        name: "ip.isCanonical",
        overloads: &[overload("ip_is_canonical", "ip.isCanonical(string): bool")],
        call: |arguments| {
            let text = text(arguments)?;
            Ok(Value::Bool(parse(text)?.to_string() == text))
        },
        cost: Some(|_, arguments, _| traversal(size(arguments, 0), 2.0)),
    },
    Function {
        name: "string",
        overloads: &[overload("ip_to_string", "string(net.IP): string")],
        call: |arguments| Ok(Value::string(address(arguments)?.to_string())),
        cost: None,
    },
    Function {
        name: "family",
        overloads: &[overload("ip_family", "net.IP.family(): int")],
        call: |arguments| Ok(Value::Int(if address(arguments)?.is_ipv4() { 4 } else { 6 })),
        cost: None,
    },
    Function {
        name: "isUnspecified",
        overloads: &[overload("ip_is_unspecified", "net.IP.isUnspecified(): bool")],
        call: |arguments| Ok(Value::Bool(address(arguments)?.is_unspecified())),
        cost: None,
    },
    Function {
        name: "isLoopback",
        overloads: &[overload("ip_is_loopback", "net.IP.isLoopback(): bool")],
        call: |arguments| Ok(Value::Bool(address(arguments)?.is_loopback())),
        cost: None,
    },
    Function {
        name: "isLinkLocalMulticast",
        overloads: &[overload("ip_is_link_local_multicast", "net.IP.isLinkLocalMulticast(): bool")],
        call: |arguments| Ok(Value::Bool(is_link_local_multicast(address(arguments)?))),
        cost: None,
    },
    Function {
        name: "isLinkLocalUnicast",
        overloads: &[overload("ip_is_link_local_unicast", "net.IP.isLinkLocalUnicast(): bool")],
        call: |arguments| Ok(Value::Bool(is_link_local_unicast(address(arguments)?))),
        cost: None,
    },
    Function {
        name: "isGlobalUnicast",
        overloads: &[overload("ip_is_global_unicast", "net.IP.isGlobalUnicast(): bool")],
        call: |arguments| Ok(Value::Bool(is_global_unicast(address(arguments)?))),
        cost: None,
    },
];

/// `net.IP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ip(pub IpAddr);

impl Ip {
    pub(super) fn value(self) -> Value<'static> {
        Value::Opaque(Arc::new(self))
    }
}

impl Opaque for Ip {
    fn r#type(&self) -> Type {
        Type::opaque("net.IP")
    }

    fn equals(&self, other: &dyn Opaque) -> std::result::Result<bool, Error> {
        Ok(self == same::<Self>(other)?)
    }

    /// The size in bytes.
    fn size(&self) -> Option<u64> {
        Some(if self.0.is_ipv4() { 4 } else { 16 })
    }

    fn to_text(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

/// `parseIPAddr`.
pub(super) fn parse(text: &str) -> std::result::Result<IpAddr, Error> {
    let quoted = || go_quote(text);
    match net::address(text) {
        Err(error) => {
            Err(Error::new(format!("IP Address {} parse error during conversion from string: {error}", quoted())))
        }
        Ok((_, zone)) if !zone.is_empty() => {
            Err(Error::new(format!("IP address {} with zone value is not allowed", quoted())))
        }
        Ok((address, _)) if is_mapped(address) => Err(mapped(text)),
        Ok((address, _)) => Ok(address),
    }
}

/// Whether the address is an IPv4 address in the form of an IPv6 address.
pub(super) fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// The error of an IPv4-mapped address.
pub(super) fn mapped(text: &str) -> Error {
    Error::new(format!("IPv4-mapped IPv6 address {} is not allowed", go_quote(text)))
}

fn text<'v>(arguments: &'v [Value<'_>]) -> std::result::Result<&'v str, Error> {
    match arguments {
        [Value::String(text)] => Ok(text),
        _ => Err(Error::NoSuchOverload),
    }
}

fn address(arguments: &[Value<'_>]) -> std::result::Result<IpAddr, Error> {
    match arguments {
        [value] => opaque(value).map(|Ip(address)| *address).ok_or(Error::NoSuchOverload),
        _ => Err(Error::NoSuchOverload),
    }
}

fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_global_unicast(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(address.is_unspecified()
        || is_broadcast
        || address.is_loopback()
        || address.is_multicast()
        || is_link_local_unicast(address))
}
