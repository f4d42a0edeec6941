//! Parses flags as GNU's `getopt` and `getopt_long` do: clusters (`-vv`, `-dp11211`),
//! `--name=value`, unambiguous beginnings of long names, flags behind other words, `--` as the end.
//! clap differs in both rules and messages.

/// Whether a flag has an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    Nothing,
    Argument,
}

/// A flag: its letter, and its long name, if it has one.
pub(crate) type Flag = (u8, &'static str, Takes);

/// Parses `arguments` (without the program's own name). Each flag goes to `each`, in order, so that
/// the first mistake of any kind is reported. An error about an unknown flag is getopt's text
/// behind the program's name. The result is all other words, in order. Without long names among
/// `flags`, `--name` is a cluster.
pub(crate) fn each<E: From<String>>(
    flags: &[Flag],
    arguments: &[String],
    mut each: impl FnMut(u8, &str) -> Result<(), E>,
) -> Result<Vec<String>, E> {
    let has_long = flags.iter().any(|(_, name, _)| !name.is_empty());
    let mut words = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            words.extend(rest.cloned());
            break;
        }
        if let Some(long) = argument.strip_prefix("--").filter(|_| has_long) {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            let (letter, name, takes) = find_long(flags, name, long)?;
            let value = match (takes, value) {
                (Takes::Nothing, Some(_)) => {
                    return Err(E::from(format!("option '--{name}' doesn't allow an argument")));
                }
                (Takes::Nothing, None) => "",
                (Takes::Argument, Some(value)) => value,
                (Takes::Argument, None) => match rest.next() {
                    Some(value) => value,
                    None => return Err(E::from(format!("option '--{name}' requires an argument"))),
                },
            };
            each(letter, value)?;
        } else if let Some(cluster) =
            argument.strip_prefix('-').filter(|cluster| !cluster.is_empty())
        {
            let mut at = 0;
            for (index, letter) in cluster.char_indices() {
                if index < at {
                    continue;
                }
                let known = flags.iter().find(|(held, ..)| char::from(*held) == letter);
                let Some((letter, _, takes)) = known else {
                    return Err(E::from(format!("invalid option -- '{letter}'")));
                };
                if *takes == Takes::Nothing {
                    each(*letter, "")?;
                    continue;
                }
                // The rest of the cluster is its argument, else the next word.
                at = cluster.len();
                let value = match &cluster[index + 1..] {
                    "" => rest.next().map(String::as_str),
                    attached => Some(attached),
                };
                let Some(value) = value else {
                    let letter = char::from(*letter);
                    return Err(E::from(format!("option requires an argument -- '{letter}'")));
                };
                each(*letter, value)?;
            }
        } else {
            words.push(argument.clone());
        }
    }
    Ok(words)
}

fn find_long(flags: &[Flag], name: &str, typed: &str) -> Result<Flag, String> {
    if let Some(flag) = flags.iter().find(|(_, long, _)| *long == name && !name.is_empty()) {
        return Ok(*flag);
    }
    let near: Vec<&Flag> = flags.iter().filter(|(_, long, _)| long.starts_with(name)).collect();
    match near.as_slice() {
        [one] => Ok(**one),
        [] => Err(format!("unrecognized option '--{typed}'")),
        several => {
            let names: Vec<String> =
                several.iter().map(|(_, long, _)| format!("'--{long}'")).collect();
            Err(format!("option '--{typed}' is ambiguous; possibilities: {}", names.join(" ")))
        }
    }
}

/// As C's `atoi`: blanks, a sign, digits; the rest is ignored, and no digits are 0. Beyond 32 bits
/// it saturates.
pub(crate) fn atoi(text: &str) -> i64 {
    let text = text.trim_start();
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let mut number = 0i64;
    for digit in digits.bytes().take_while(u8::is_ascii_digit) {
        number = (number * 10 + i64::from(digit - b'0')).min(i64::from(i32::MAX));
    }
    if negative { -number } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: &[Flag] = &[
        (b'v', "verbose", Takes::Nothing),
        (b'V', "version", Takes::Nothing),
        (b'p', "port", Takes::Argument),
        (b'D', "", Takes::Argument),
    ];

    fn read(arguments: &[&str]) -> Result<Vec<(char, String)>, String> {
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        let mut out = Vec::new();
        each(FLAGS, &arguments, |letter, value| {
            out.push((char::from(letter), value.to_owned()));
            Ok::<(), String>(())
        })?;
        Ok(out)
    }

    #[test]
    fn all_forms_of_a_flag_are_read() {
        let one = |letter, value: &str| Ok(vec![(letter, value.to_owned())]);
        for form in [&["-p", "1"][..], &["-p1"], &["--port=1"], &["--port", "1"], &["--po", "1"]] {
            assert_eq!(read(form), one('p', "1"), "{form:?}");
        }
        assert_eq!(read(&["-vvp1"]).map(|flags| flags.len()), Ok(3));
        assert_eq!(read(&["word", "-", "-D="]), one('D', "="));
        assert_eq!(read(&["--port="]), one('p', ""));
        assert_eq!(read(&["--", "-x"]), Ok(vec![]));
        assert_eq!(
            read(&["-p", "--", "-v"]).map(|flags| flags.len()),
            Ok(2),
            "an argument may be anything"
        );
    }

    #[test]
    fn other_words_are_left_over() {
        let words = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
            each(FLAGS, &arguments, |_, _| Ok::<(), String>(())).map(|words| words.join(","))
        };
        assert_eq!(words(&["a", "-p", "1", "-", "b", "--", "-v", "--", "c"]).as_deref(), {
            Ok("a,-,b,-v,--,c")
        });
        let short: &[Flag] = &[(b'v', "", Takes::Nothing)];
        let mistake = each(short, &["--verbose".to_owned()], |_, _| Ok::<(), String>(()));
        assert_eq!(mistake, Err("invalid option -- '-'".to_owned()));
    }

    #[test]
    fn mistakes_are_told_as_getopt_tells_them() {
        for (arguments, message) in [
            (&["-x"][..], "invalid option -- 'x'"),
            (&["-vä"], "invalid option -- 'ä'"),
            (&["-p"], "option requires an argument -- 'p'"),
            (&["--port"], "option '--port' requires an argument"),
            (&["--verbose=1"], "option '--verbose' doesn't allow an argument"),
            (&["--ver"], "option '--ver' is ambiguous; possibilities: '--verbose' '--version'"),
            (&["--none=1"], "unrecognized option '--none=1'"),
        ] {
            assert_eq!(read(arguments), Err(message.to_owned()), "{arguments:?}");
        }
    }

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, number) in [
            ("12", 12),
            (" -5x", -5),
            ("+7", 7),
            ("", 0),
            ("x1", 0),
            ("99999999999999999999", 2_147_483_647),
        ] {
            assert_eq!(atoi(text), number, "{text:?}");
        }
    }
}
