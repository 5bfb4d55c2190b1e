//! `#[testbed::test]`, which enters a function into the list of tests that `testbed::run`
//! runs.

use proc_macro::{TokenStream, TokenTree};

/// Makes a function without arguments a test. An `async` one runs on a multi-thread runtime.
///
/// Options, separated by commas: `alone` keeps every other test of the program from running
/// beside it; `timed` does too, and repeats a test that failed while the machine stood still;
/// `all` leaves it to `cargo xtask test --all`.
#[proc_macro_attribute]
pub fn test(options: TokenStream, function: TokenStream) -> TokenStream {
    match entry(&options.to_string(), &function) {
        Ok(entry) => {
            let entry: TokenStream = entry.parse().expect("the entry is well-formed");
            function.into_iter().chain(entry).collect()
        }
        Err(why) => format!("compile_error!({why:?});")
            .parse()
            .expect("a message is well-formed"),
    }
}

/// The statement that enters the function into the list.
fn entry(options: &str, function: &TokenStream) -> Result<String, String> {
    let (mut alone, mut timed, mut all) = (false, false, false);
    for option in options.split(',').map(str::trim) {
        match option {
            "alone" => alone = true,
            "timed" => (alone, timed) = (true, true),
            "all" => all = true,
            "" => {}
            other => return Err(format!("unknown option of a test: {other}")),
        }
    }
    let words: Vec<String> = function
        .clone()
        .into_iter()
        .filter_map(|tree| match tree {
            TokenTree::Ident(word) => Some(word.to_string()),
            _ => None,
        })
        .collect();
    let place = words.iter().position(|word| word == "fn");
    let place = place.ok_or("a test is a function")?;
    let name = words.get(place + 1).ok_or("a test has a name")?;
    let is_async = words[..place].iter().any(|word| word == "async");
    let run = match is_async {
        true => format!("|| ::testbed::block_on({name}())"),
        false => name.clone(),
    };
    Ok(format!(
        "::testbed::inventory::submit! {{ ::testbed::Test {{ \
             module: ::core::module_path!(), name: {name:?}, run: {run}, \
             alone: {alone}, timed: {timed}, all: {all} }} }}"
    ))
}
