//! Two quantities, on a line each: their order is consistent, and a sum minus one of them is the other.

#![no_main]

use kubernetes_object::quantity::Amount;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    let (first, second) = input.split_once('\n').unwrap_or((input, input));
    let (Ok(a), Ok(b)) = (Amount::parse(first), Amount::parse(second)) else { return };
    assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
    assert_eq!(a.sign() == 0, a == Amount::whole(0));
    let _ = (a.as_f64(), a.as_i64());
    if let Ok(sum) = a.plus(&b) {
        assert_eq!(b.plus(&a).as_ref(), Ok(&sum));
        assert_eq!(sum.cmp(&a), b.cmp(&Amount::whole(0)));
        if let Ok(difference) = sum.minus(&b) {
            assert_eq!(difference, a);
        }
    }
});
