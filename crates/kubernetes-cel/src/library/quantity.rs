//! Quantities: `library.Quantity` of Kubernetes.

use super::{Result, opaque, overload, same, traversal_of_first};
use crate::function::Function;
use crate::types::Type;
use crate::value::{Error, Opaque, Value};
use kubernetes_object::quantity::{Amount, TooManyDigits};
use std::cmp::Ordering;
use std::sync::Arc;

/// Functions that make, compare, add and subtract quantities.
pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "quantity",
        overloads: &[overload("string_to_quantity", "quantity(string): kubernetes.Quantity")],
        call: |arguments| match arguments {
            [Value::String(text)] => match Amount::parse(text) {
                Ok(amount) => Ok(value(amount, false)),
                Err(error) => Err(Error::new(error.to_string())),
            },
            _ => Err(Error::NoSuchOverload),
        },
        cost: Some(traversal_of_first),
    },
    Function {
        name: "isQuantity",
        overloads: &[overload("is_quantity_string", "isQuantity(string): bool")],
        call: |arguments| match arguments {
            [Value::String(text)] => Ok(Value::Bool(Amount::parse(text).is_ok())),
            _ => Err(Error::NoSuchOverload),
        },
        cost: Some(traversal_of_first),
    },
    Function {
        name: "sign",
        overloads: &[overload("quantity_sign", "sign(kubernetes.Quantity): int")],
        call: |arguments| Ok(Value::Int(amount(arguments)?.sign())),
        cost: None,
    },
    Function {
        name: "isGreaterThan",
        overloads: &[overload(
            "quantity_is_greater_than",
            "kubernetes.Quantity.isGreaterThan(kubernetes.Quantity): bool",
        )],
        call: |arguments| Ok(Value::Bool(compare(arguments)?.is_gt())),
        cost: None,
    },
    Function {
        name: "isLessThan",
        overloads: &[overload("quantity_is_less_than", "kubernetes.Quantity.isLessThan(kubernetes.Quantity): bool")],
        call: |arguments| Ok(Value::Bool(compare(arguments)?.is_lt())),
        cost: None,
    },
    Function {
        name: "compareTo",
        overloads: &[overload("quantity_compare_to", "kubernetes.Quantity.compareTo(kubernetes.Quantity): int")],
        call: |arguments| Ok(Value::Int(compare(arguments)? as i64)),
        cost: None,
    },
    Function {
        name: "asApproximateFloat",
        overloads: &[overload("quantity_get_float", "kubernetes.Quantity.asApproximateFloat(): double")],
        call: |arguments| Ok(Value::Double(amount(arguments)?.as_f64())),
        cost: None,
    },
    Function {
        name: "asInteger",
        overloads: &[overload("quantity_get_int", "kubernetes.Quantity.asInteger(): int")],
        call: |arguments| {
            let value = amount(arguments)?.as_i64();
            value.map(Value::Int).ok_or(Error::new("cannot convert value to integer"))
        },
        cost: None,
    },
    Function {
        name: "isInteger",
        overloads: &[overload("quantity_is_integer", "kubernetes.Quantity.isInteger(): bool")],
        call: |arguments| Ok(Value::Bool(amount(arguments)?.as_i64().is_some())),
        cost: None,
    },
    Function {
        name: "add",
        overloads: &[
            overload("quantity_add", "kubernetes.Quantity.add(kubernetes.Quantity): kubernetes.Quantity"),
            overload("quantity_add_int", "kubernetes.Quantity.add(int): kubernetes.Quantity"),
        ],
        call: |arguments| reckon(arguments, Amount::plus),
        cost: None,
    },
    Function {
        name: "sub",
        overloads: &[
            overload("quantity_sub", "kubernetes.Quantity.sub(kubernetes.Quantity): kubernetes.Quantity"),
            overload("quantity_sub_int", "kubernetes.Quantity.sub(int): kubernetes.Quantity"),
        ],
        call: |arguments| reckon(arguments, Amount::minus),
        cost: None,
    },
];

/// `kubernetes.Quantity`.
#[derive(Clone, Debug)]
struct Quantity {
    amount: Amount,
    /// Whether the quantity is a sum or a difference: Kubernetes has a pointer then, and does not recognize it on the right of a
    /// comparison.
    is_result: bool,
}

impl Opaque for Quantity {
    fn r#type(&self) -> Type {
        Type::opaque("kubernetes.Quantity")
    }

    fn equals(&self, other: &dyn Opaque) -> std::result::Result<bool, Error> {
        match same::<Self>(other)? {
            other if other.is_result => Err(Error::OVERLOAD),
            other => Ok(self.amount == other.amount),
        }
    }
}

fn value(amount: Amount, is_result: bool) -> Value<'static> {
    Value::Opaque(Arc::new(Quantity { amount, is_result }))
}

fn amount<'v>(arguments: &'v [Value<'_>]) -> std::result::Result<&'v Amount, Error> {
    match arguments {
        [value] => opaque(value).map(|quantity: &Quantity| &quantity.amount).ok_or(Error::NoSuchOverload),
        _ => Err(Error::NoSuchOverload),
    }
}

fn compare(arguments: &[Value<'_>]) -> std::result::Result<Ordering, Error> {
    match arguments {
        [a, b] => match (opaque::<Quantity>(a), opaque::<Quantity>(b)) {
            (Some(a), Some(b)) => Ok(a.amount.cmp(&b.amount)),
            _ => Err(Error::NoSuchOverload),
        },
        _ => Err(Error::NoSuchOverload),
    }
}

type Operation = fn(&Amount, &Amount) -> std::result::Result<Amount, TooManyDigits>;

fn reckon<'a>(arguments: &[Value<'a>], operation: Operation) -> Result<'a> {
    let [own, other] = arguments else { return Err(Error::NoSuchOverload) };
    let own: &Quantity = opaque(own).ok_or(Error::NoSuchOverload)?;
    let result = match other {
        Value::Int(other) => operation(&own.amount, &Amount::whole(*other)),
        other => operation(&own.amount, &opaque::<Quantity>(other).ok_or(Error::NoSuchOverload)?.amount),
    };
    result.map(|amount| value(amount, true)).map_err(|error| Error::new(error.to_string()))
}
