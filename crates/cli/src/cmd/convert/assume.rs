//! What the user vouches for: `el=1,security=nonsecure,sp=x,vl=128`.

use unspool::model::{Context, Modes, Security};

/// A state of execution, as far as it is said.
pub(crate) fn assumed(text: &str) -> Result<Context, String> {
    text.split(',').try_fold(Context::default(), |context, word| {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("'{word}' is not KEY=VALUE"))?;
        match (key.trim(), value.trim()) {
            ("el", level) => {
                let level = level.parse().ok().filter(|level| *level <= 3);
                let level = level.ok_or_else(|| format!("'{value}' is no Exception level: 0, 1, 2 or 3"))?;
                Ok(Context { level: Some(level), ..context })
            }
            ("security", name) => {
                let security = match name {
                    "secure" | "s" => Security::Secure,
                    "nonsecure" | "ns" => Security::NonSecure,
                    _ => return Err(format!("'{name}' is no security state: secure or nonsecure")),
                };
                Ok(Context { security: Some(security), ..context })
            }
            ("sp", "0") => Ok(Context { is_handler: Some(false), ..context }),
            ("sp", "x") => Ok(Context { is_handler: Some(true), ..context }),
            ("sp", other) => Err(format!("'{other}' is no stack pointer: 0 for SP_EL0, x for SP_ELx")),
            ("vl", bits) => {
                let is_length = |bits: &u16| bits.is_multiple_of(128) && (128..=2048).contains(bits);
                let bits: Option<u16> = bits.parse().ok().filter(is_length);
                let bits =
                    bits.ok_or_else(|| format!("'{value}' is no vector length: 128 to 2048 bits in steps of 128"))?;
                let vector_length = (bits / 128 - 1) as u8;
                Ok(Context { modes: Some(Modes { vector_length, ..Modes::default() }), ..context })
            }
            (key, _) => Err(format!("'{key}' is none of el, security, sp and vl")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said() {
        let context = assumed("el=1, security=ns,sp=x").unwrap_or_default();
        assert_eq!((context.level, context.security), (Some(1), Some(Security::NonSecure)));
        assert_eq!(context.is_handler, Some(true));
        assert_eq!(assumed("vl=512").unwrap_or_default().modes.map(|modes| modes.vector_length), Some(3));
        for wrong in ["el", "el=4", "vl=100", "vl=4096", "security=root", "sp=1", "pid=3", ""] {
            assert!(assumed(wrong).is_err(), "{wrong}");
        }
    }
}
