//! Whether two WIT functions have the same type, and where they first differ if not.
//!
//! Types are compared by structure; names of records do not matter, names of fields and cases do,
//! as in the component model. Knows nothing of the contract.

use wit_parser::{Function, Resolve, Type, TypeDefKind};

/// A type with the package graph that explains it.
#[derive(Clone, Copy)]
struct Typed<'a>(&'a Resolve, Type);

/// Compares their function with ours.
///
/// # Errors
/// Where they first differ, beginning with the function's name.
pub(super) fn compare(
    (our_resolve, ours): (&Resolve, &Function),
    (their_resolve, theirs): (&Resolve, &Function),
) -> Result<(), String> {
    let name = &theirs.name;
    if ours.params.len() != theirs.params.len() {
        let (our_count, their_count) = (ours.params.len(), theirs.params.len());
        return Err(format!(
            "`{name}`: it takes {their_count} parameters, the contract says {our_count}"
        ));
    }
    for (ours, theirs) in ours.params.iter().zip(&theirs.params) {
        let place = format!("`{name}`: parameter `{}`", theirs.name);
        same(Typed(our_resolve, ours.ty), Typed(their_resolve, theirs.ty), &place)?;
    }
    let place = format!("`{name}`: its result");
    let results = (ours.result.as_ref(), theirs.result.as_ref());
    same_optional(our_resolve, their_resolve, results, &place)
}

fn same(ours: Typed<'_>, theirs: Typed<'_>, place: &str) -> Result<(), String> {
    let (ours, theirs) = (resolved(ours), resolved(theirs));
    let differs = || {
        let (our_name, their_name) = (described(ours), described(theirs));
        Err(format!("{place} is {their_name}, the contract says {our_name}"))
    };
    let (Type::Id(our_id), Type::Id(their_id)) = (ours.1, theirs.1) else {
        return if ours.1 == theirs.1 { Ok(()) } else { differs() };
    };
    let within = |ours_: Type, theirs_: Type, place: &str| {
        same(Typed(ours.0, ours_), Typed(theirs.0, theirs_), place)
    };
    match (&ours.0.types[our_id].kind, &theirs.0.types[their_id].kind) {
        (TypeDefKind::Record(ours), TypeDefKind::Record(theirs)) => {
            let our_names: Vec<&str> = ours.fields.iter().map(|field| &*field.name).collect();
            let their_names: Vec<&str> = theirs.fields.iter().map(|field| &*field.name).collect();
            same_names("field", &our_names, &their_names, place)?;
            for (ours, theirs) in ours.fields.iter().zip(&theirs.fields) {
                within(ours.ty, theirs.ty, &format!("{place}, field `{}`", ours.name))?;
            }
            Ok(())
        }
        (TypeDefKind::Enum(ours), TypeDefKind::Enum(theirs)) => {
            let our_names: Vec<&str> = ours.cases.iter().map(|case| &*case.name).collect();
            let their_names: Vec<&str> = theirs.cases.iter().map(|case| &*case.name).collect();
            same_names("case", &our_names, &their_names, place)
        }
        (TypeDefKind::List(ours), TypeDefKind::List(theirs)) => within(*ours, *theirs, place),
        (TypeDefKind::Option(ours), TypeDefKind::Option(theirs)) => within(*ours, *theirs, place),
        (TypeDefKind::Result(our_result), TypeDefKind::Result(their_result)) => {
            let oks = (our_result.ok.as_ref(), their_result.ok.as_ref());
            same_optional(ours.0, theirs.0, oks, place)?;
            let errors = (our_result.err.as_ref(), their_result.err.as_ref());
            same_optional(ours.0, theirs.0, errors, &format!("{place}, its error"))
        }
        // The contract has no other kinds of types; one that is added fails the test that compares
        // it with itself.
        _ => differs(),
    }
}

fn same_optional(
    ours: &Resolve,
    theirs: &Resolve,
    types: (Option<&Type>, Option<&Type>),
    place: &str,
) -> Result<(), String> {
    match types {
        (None, None) => Ok(()),
        (Some(our_type), Some(their_type)) => {
            same(Typed(ours, *our_type), Typed(theirs, *their_type), place)
        }
        (None, Some(_)) => Err(format!("{place} is there, the contract has none")),
        (Some(_), None) => Err(format!("{place} is missing")),
    }
}

fn same_names(what: &str, ours: &[&str], theirs: &[&str], place: &str) -> Result<(), String> {
    if let Some(missing) = ours.iter().find(|name| !theirs.contains(name)) {
        return Err(format!("{place} has no {what} `{missing}`"));
    }
    if let Some(unknown) = theirs.iter().find(|name| !ours.contains(name)) {
        return Err(format!("{place} has a {what} `{unknown}`, which the contract does not have"));
    }
    if ours != theirs {
        return Err(format!("{place} has its {what}s in another order"));
    }
    Ok(())
}

/// The type behind names for it.
fn resolved(typed: Typed<'_>) -> Typed<'_> {
    let Typed(resolve, mut ty) = typed;
    while let Type::Id(id) = ty {
        match &resolve.types[id].kind {
            TypeDefKind::Type(alias) => ty = *alias,
            _ => break,
        }
    }
    Typed(resolve, ty)
}

fn described(Typed(resolve, ty): Typed<'_>) -> String {
    match ty {
        Type::Id(id) => {
            let definition = &resolve.types[id];
            match &definition.name {
                Some(name) => format!("{} `{name}`", definition.kind.as_str()),
                None => definition.kind.as_str().to_owned(),
            }
        }
        Type::String => "string".into(),
        primitive => format!("{primitive:?}").to_lowercase(),
    }
}
