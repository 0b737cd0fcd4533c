//! Symbols are made, freed and made again, and the symbols of replicas stay equal to the symbols of the source.

use super::*;

fn object(symbols: &mut Symbols, texts: &[String]) -> (Vec<Sym>, Uses) {
    let mut interning = symbols.of_object();
    let syms = texts.iter().map(|text| interning.intern(text)).collect();
    (syms, interning.finish())
}

/// Updates a replica that has followed `symbols` up to `position`.
fn follow(symbols: &Symbols, replica: &mut Symbols, position: &mut u64) {
    for (sym, text) in symbols.since(*position) {
        replica.announce(sym, text);
    }
    *position = symbols.position();
}

#[test]
fn ever_new_texts_keep_the_table_small_and_replicas_right() {
    let mut symbols = Symbols::default();
    let stays = object(&mut symbols, &["stays".to_owned()]);
    let (mut near, mut near_position) = (Symbols::default(), 0);
    let (mut far, mut far_position) = (Symbols::default(), 0);
    let (mut last, mut most) = (None, 0);
    for round in 0..200_000 {
        let texts = [format!("value-{round}"), "app".to_owned(), format!("image-{round}")];
        let (syms, uses) = object(&mut symbols, &texts);
        symbols.free_unused(|_| false);
        most = most.max(symbols.len());
        if round % 7 == 0 {
            follow(&symbols, &mut near, &mut near_position);
            assert!(
                syms.iter().zip(&texts).all(|(sym, text)| near.text(*sym) == text && near.lookup(text) == Some(*sym))
            );
        }
        last = Some((syms, texts, uses));
    }
    assert!(most < 3 * MIN_UNUSED, "{most} symbols for a handful of texts");
    assert!(symbols.texts.len() < 3 * MIN_UNUSED, "freed numbers are used again");
    follow(&symbols, &mut near, &mut near_position);
    follow(&symbols, &mut far, &mut far_position);
    assert_eq!(symbols.text(stays.0[0]), "stays");
    let (syms, texts, _uses) = last.unwrap();
    for replica in [&near, &far] {
        assert!(syms.iter().zip(&texts).all(|(sym, text)| replica.text(*sym) == text));
        assert_eq!(replica.lookup("stays"), Some(stays.0[0]));
        assert_eq!(replica.lookup("value-5"), None, "a freed symbol has no text");
        assert!(replica.texts.len() < 3 * MIN_UNUSED);
    }
}

#[test]
fn a_replica_that_missed_too_much_is_told_everything() {
    let mut symbols = Symbols::default();
    let (mut replica, mut position) = (Symbols::default(), 0);
    let (_, gone) = object(&mut symbols, &["early".to_owned()]);
    follow(&symbols, &mut replica, &mut position);
    drop(gone);
    for round in 0..200_000 {
        drop(object(&mut symbols, &[format!("value-{round}")]));
        symbols.free_unused(|_| false);
    }
    follow(&symbols, &mut replica, &mut position);
    assert_eq!(symbols.lookup("early"), None);
    assert_eq!(replica.lookup("early"), None);
    assert_eq!(replica.len(), symbols.texts.len());
}

/// A replica gets the present text of each number, in the order of numbers and not of events.
#[test]
fn a_text_that_moved_to_a_lower_number_is_found_there() {
    for next in ["x", ""] {
        let mut replica = Symbols::default();
        replica.announce(Sym(30), "b");
        replica.announce(Sym(20), "b");
        replica.announce(Sym(30), next);
        assert_eq!(replica.lookup("b"), Some(Sym(20)));
    }
}

#[test]
fn symbols_in_use_and_held_ones_stay() {
    let mut symbols = Symbols::default();
    let profile = symbols.intern("my-scheduler");
    let (held, uses) = object(&mut symbols, &["node-7".to_owned()]);
    drop(uses);
    let (used, copy) = object(&mut symbols, &["x".to_owned()]);
    let copies = vec![copy.clone(), copy];
    for round in 0..100_000 {
        drop(object(&mut symbols, &[format!("value-{round}")]));
        symbols.free_unused(|sym| sym == held[0]);
    }
    assert_eq!(symbols.text(profile), "my-scheduler");
    assert_eq!(symbols.text(held[0]), "node-7");
    assert_eq!(symbols.lookup("x"), Some(used[0]));
    assert!(symbols.n_sweeps() > 0);
    drop(copies);
}

#[test]
fn an_object_that_was_not_finished_uses_nothing() {
    let mut symbols = Symbols::default();
    let n_unused = symbols.n_unused;
    symbols.of_object().intern("x");
    assert_eq!(symbols.n_unused, n_unused + 1);
}

#[test]
fn long_texts_are_kept_as_digests_that_compare_as_they_do() {
    let mut symbols = Symbols::default();
    let [long, other] = ["a", "b"].map(|letter| letter.repeat(900_000));
    let (syms, _uses) = object(&mut symbols, &[long.clone(), other, long]);
    assert_eq!(syms[0], syms[2]);
    assert_ne!(syms[0], syms[1]);
    assert!(symbols.text(syms[0]).len() < 100, "{}", symbols.text(syms[0]));
    let longest_name = "n".repeat(317);
    let sym = symbols.intern(&longest_name);
    assert_eq!(symbols.text(sym), longest_name);
}

#[test]
fn temporary_symbols_leave_no_trace_but_replicas_are_told() {
    let mut mirror = Symbols::default();
    let first = Sym(u32::try_from(WELL_KNOWN.len()).unwrap());
    mirror.mirror(first, "first".into());
    let (position, n_sweeps) = (mirror.position(), mirror.n_sweeps());
    let begun = mirror.begin_temporary();
    let mut interning = mirror.of_object();
    let (known, own) = (interning.intern("first"), interning.intern("own"));
    let uses = interning.finish();
    assert_eq!((known, mirror.text(own)), (first, "own"));
    mirror.end_temporary(begun);
    assert_eq!((mirror.lookup("own"), mirror.lookup("first")), (None, Some(first)));
    assert!(mirror.n_sweeps() > n_sweeps);
    assert_eq!(mirror.since(position), [(own, "")]);
    // The number belongs to another string, which an object of the past does not release.
    mirror.mirror(own, "other".into());
    drop(uses);
    mirror.free_eagerly();
    mirror.free_unused(|_| false);
    assert_eq!((mirror.text(own), mirror.lookup("other")), ("other", Some(own)));
}
