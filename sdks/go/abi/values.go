// Package abi is used by the bindings. It has types for values for which Go has no types, and it allocates the memory of
// values that the host and the component exchange. It is compiled into components only.
package abi

// Unit is a value without content.
type Unit struct{}

// Tuple2 is a pair.
type Tuple2[A, B any] struct {
	F0 A
	F1 B
}

// The values of [Option.Tag].
const (
	OptionNone = iota
	OptionSome
)

// Option is a value, or no value.
type Option[T any] struct {
	value  T
	isSome bool
}

// Some returns an option with a value.
func Some[T any](value T) Option[T] { return Option[T]{value: value, isSome: true} }

// None returns an option without a value.
func None[T any]() Option[T] { return Option[T]{} }

// Tag returns the option's case in the contract.
func (option Option[T]) Tag() uint8 {
	if option.isSome {
		return OptionSome
	}
	return OptionNone
}

// IsNone says whether the option has no value.
func (option Option[T]) IsNone() bool { return !option.isSome }

// Some returns the value. It panics if the option has no value.
func (option Option[T]) Some() T {
	if !option.isSome {
		panic("no value in an option")
	}
	return option.value
}

// SomeOr returns the value, or other if the option has no value.
func (option Option[T]) SomeOr(other T) T {
	if option.isSome {
		return option.value
	}
	return other
}

// The values of [Result.Tag].
const (
	ResultOk = iota
	ResultErr
)

// Result is an answer or an error.
type Result[T, E any] struct {
	answer T
	failed E
	isErr  bool
}

// Ok returns a result with an answer.
func Ok[T, E any](answer T) Result[T, E] { return Result[T, E]{answer: answer} }

// Err returns a result with an error.
func Err[T, E any](failed E) Result[T, E] { return Result[T, E]{failed: failed, isErr: true} }

// Tag returns the result's case in the contract.
func (result Result[T, E]) Tag() uint8 {
	if result.isErr {
		return ResultErr
	}
	return ResultOk
}

// IsErr says whether the result is an error.
func (result Result[T, E]) IsErr() bool { return result.isErr }

// Ok returns the answer. It panics if the result is an error.
func (result Result[T, E]) Ok() T {
	if result.isErr {
		panic("no answer in a result")
	}
	return result.answer
}

// Err returns the error. It panics if the result is an answer.
func (result Result[T, E]) Err() E {
	if !result.isErr {
		panic("an answer in a result")
	}
	return result.failed
}
