//! Contexts of the step model, encoded and decoded.

use unspool_model::{Context, Modes, Security};

use super::bytes::{Cursor, Malformed, put};

/// The Security states in the order of their numbers in the file.
const SECURITIES: [Security; 4] = [Security::Secure, Security::NonSecure, Security::Root, Security::Realm];

fn put_option(out: &mut Vec<u8>, number: Option<u64>) {
    out.push(u8::from(number.is_some()));
    number.into_iter().for_each(|number| put(out, number));
}

fn option(cursor: &mut Cursor<'_>) -> Result<Option<u64>, Malformed> {
    if cursor.byte()? == 0 { Ok(None) } else { cursor.number().map(Some) }
}

pub(super) fn encode_context(out: &mut Vec<u8>, context: &Context) {
    let security = context.security.and_then(|state| SECURITIES.iter().position(|known| *known == state));
    let flag = |flag: Option<bool>| flag.map(u64::from);
    let modes = context.modes.map(|modes| {
        let flags = [modes.streaming, modes.dit, modes.ssbs].map(u64::from);
        flags[0]
            | flags[1] << 1
            | flags[2] << 2
            | u64::from(modes.vector_length) << 8
            | u64::from(modes.tag_check_fault) << 16
    });
    for number in [
        context.level.map(u64::from),
        security.map(|at| at as u64),
        flag(context.is_aarch64),
        flag(context.is_handler),
        context.process,
        context.thread,
        context.vmid.map(u64::from),
        modes,
    ] {
        put_option(out, number);
    }
}

pub(super) fn decode_context(cursor: &mut Cursor<'_>) -> Result<Context, Malformed> {
    let byte = |number: u64| u8::try_from(number).map_err(|_| Malformed);
    let level = option(cursor)?.map(byte).transpose()?;
    let security = option(cursor)?.map(|at| SECURITIES.get(at as usize).copied().ok_or(Malformed)).transpose()?;
    let [is_aarch64, is_handler] = [option(cursor)?, option(cursor)?].map(|flag| flag.map(|flag| flag != 0));
    let (process, thread) = (option(cursor)?, option(cursor)?);
    let vmid = option(cursor)?.map(|vmid| u32::try_from(vmid).map_err(|_| Malformed)).transpose()?;
    let modes = option(cursor)?.map(|modes| Modes {
        streaming: modes & 1 != 0,
        dit: modes & 2 != 0,
        ssbs: modes & 4 != 0,
        vector_length: (modes >> 8) as u8,
        tag_check_fault: (modes >> 16) as u8,
    });
    Ok(Context { level, security, is_aarch64, is_handler, process, thread, vmid, modes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_restored() {
        let modes = Modes { streaming: true, dit: false, ssbs: true, vector_length: 7, tag_check_fault: 2 };
        let full = Context {
            level: Some(3),
            security: Some(Security::Realm),
            is_aarch64: Some(true),
            is_handler: Some(false),
            process: Some(u64::MAX),
            thread: Some(5),
            vmid: Some(9),
            modes: Some(modes),
        };
        for context in [full, Context::default(), Context { thread: Some(0), ..Context::default() }] {
            let mut out = Vec::new();
            encode_context(&mut out, &context);
            assert_eq!(decode_context(&mut Cursor(&out)), Ok(context));
            (0..out.len()).for_each(|end| assert!(decode_context(&mut Cursor(&out[..end])).is_err()));
        }
    }
}
