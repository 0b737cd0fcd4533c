// Package abi is what the bindings are built on: values that Go has no types for, and memory for what goes through the
// border. It is compiled into components only.
package abi

// Unit is a value without content.
type Unit struct{}

// Tuple2 is a pair.
type Tuple2[A, B any] struct {
	F0 A
	F1 B
}

// What [Option.Tag] gives.
const (
	OptionNone = iota
	OptionSome
)

// Option is a value or none.
type Option[T any] struct {
	value  T
	isSome bool
}

// Some is an option with a value.
func Some[T any](value T) Option[T] { return Option[T]{value: value, isSome: true} }

// None is an option without.
func None[T any]() Option[T] { return Option[T]{} }

// Tag is the option's case in the contract.
func (option Option[T]) Tag() uint8 {
	if option.isSome {
		return OptionSome
	}
	return OptionNone
}

// IsNone is whether there is no value.
func (option Option[T]) IsNone() bool { return !option.isSome }

// Some is the value. There must be one.
func (option Option[T]) Some() T {
	if !option.isSome {
		panic("no value in an option")
	}
	return option.value
}

// SomeOr is the value, or another if there is none.
func (option Option[T]) SomeOr(other T) T {
	if option.isSome {
		return option.value
	}
	return other
}

// What [Result.Tag] gives.
const (
	ResultOk = iota
	ResultErr
)

// Result is an answer, or what came in its place.
type Result[T, E any] struct {
	answer T
	failed E
	isErr  bool
}

// Ok is a result with an answer.
func Ok[T, E any](answer T) Result[T, E] { return Result[T, E]{answer: answer} }

// Err is a result without.
func Err[T, E any](failed E) Result[T, E] { return Result[T, E]{failed: failed, isErr: true} }

// Tag is the result's case in the contract.
func (result Result[T, E]) Tag() uint8 {
	if result.isErr {
		return ResultErr
	}
	return ResultOk
}

// IsErr is whether something came in the answer's place.
func (result Result[T, E]) IsErr() bool { return result.isErr }

// Ok is the answer. There must be one.
func (result Result[T, E]) Ok() T {
	if result.isErr {
		panic("no answer in a result")
	}
	return result.answer
}

// Err is what came in the answer's place. There must be something.
func (result Result[T, E]) Err() E {
	if !result.isErr {
		panic("an answer in a result")
	}
	return result.failed
}
