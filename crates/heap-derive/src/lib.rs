//! `#[derive(Plain)]`: the representation of a struct, or of an enum without fields, in words of a heap. Documented at
//! `cedrat::heap::Plain`.
//!
//! For a struct `Account` with named fields it also writes a trait `AccountFields`, which gives each place of an `Account`
//! a method for each of its fields. The trait is public if the struct and all its fields are.

#![forbid(unsafe_code)]

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{Data, DataEnum, DeriveInput, Error, Fields, Generics, Ident, Index, Path, Visibility, parse_quote};

/// Writes `Plain` for a struct or for an enum whose variants have no fields.
///
/// `#[plain(crate = "some::path")]` names the path of the heap, if it is not `cedrat::heap`.
#[proc_macro_derive(Plain, attributes(plain))]
pub fn derive_plain(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(input: &DeriveInput) -> Result<TokenStream, Error> {
    let heap = heap_path(input)?;
    match &input.data {
        Data::Struct(data) => Ok(expand_struct(input, &data.fields, &heap)),
        Data::Enum(data) => expand_enum(input, data, &heap),
        Data::Union(data) => {
            Err(Error::new(data.union_token.span(), "what lies in a union is not known: use a struct"))
        }
    }
}

/// Returns the path of the crate with the trait.
fn heap_path(input: &DeriveInput) -> Result<Path, Error> {
    let mut path = parse_quote!(::cedrat::heap);
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("plain")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("only `crate = \"path\"` is known here"));
            }
            path = meta.value()?.parse::<syn::LitStr>()?.parse()?;
            Ok(())
        })?;
    }
    Ok(path)
}

/// Requires that every type parameter is plain as well.
fn plain_generics(generics: &Generics, heap: &Path) -> Generics {
    let mut generics = generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(#heap::Plain));
    }
    generics
}

fn expand_struct(input: &DeriveInput, fields: &Fields, heap: &Path) -> TokenStream {
    let name = &input.ident;
    let generics = plain_generics(&input.generics, heap);
    let (of, parameters, conditions) = generics.split_for_impl();
    let types: Vec<_> = fields.iter().map(|field| &field.ty).collect();
    let members: Vec<_> = fields.members().collect();
    let locals: Vec<_> = (0..types.len()).map(|index| format_ident!("field_{index}")).collect();
    let describe = describe_struct(input, fields, heap);
    let places = places(input, fields, &generics, heap);
    quote! {
        #[automatically_derived]
        impl #of #heap::Plain for #name #parameters #conditions {
            const WORDS: usize = 0 #(+ <#types as #heap::Plain>::WORDS)*;

            fn to_words(&self, words: &mut [u64]) {
                #(
                    let (now, words) = words.split_at_mut(<#types as #heap::Plain>::WORDS);
                    #heap::Plain::to_words(&self.#members, now);
                )*
                let _ = words;
            }

            fn of_words(words: &[u64]) -> ::core::option::Option<Self> {
                #(
                    let (now, words) = words.split_at(<#types as #heap::Plain>::WORDS);
                    let #locals = <#types as #heap::Plain>::of_words(now)?;
                )*
                let _ = words;
                ::core::option::Option::Some(#name { #(#members: #locals),* })
            }

            fn describe(into: &mut ::std::string::String, whole: bool) {
                #describe
            }
        }

        #places
    }
}

fn describe_struct(input: &DeriveInput, fields: &Fields, heap: &Path) -> TokenStream {
    let name = input.ident.to_string();
    let types = fields.iter().map(|field| &field.ty);
    let labels = fields.members().enumerate().map(|(index, member)| {
        let comma = if index == 0 { " " } else { ", " };
        match member {
            syn::Member::Named(name) => format!("{comma}{name}: "),
            syn::Member::Unnamed(Index { index, .. }) => format!("{comma}{index}: "),
        }
    });
    let parameters = input.generics.type_params().map(|parameter| &parameter.ident);
    let begins = input.generics.type_params().enumerate().map(|(index, _)| if index == 0 { "<" } else { ", " });
    let end = if input.generics.type_params().next().is_some() { ">" } else { "" };
    quote! {
        into.push_str(#name);
        #( into.push_str(#begins); <#parameters as #heap::Plain>::describe(into, false); )*
        into.push_str(#end);
        if whole {
            into.push_str(" {");
            #( into.push_str(#labels); <#types as #heap::Plain>::describe(into, true); )*
            into.push_str(" }");
        }
    }
}

/// Generates the trait with a method for each field.
fn places(input: &DeriveInput, fields: &Fields, generics: &Generics, heap: &Path) -> TokenStream {
    let Fields::Named(named) = fields else { return TokenStream::new() };
    let (name, name_of_trait) = (&input.ident, format_ident!("{}Fields", input.ident));
    let is_public = |visibility: &Visibility| matches!(visibility, Visibility::Public(_));
    let all_public = named.named.iter().all(|field| is_public(&field.vis));
    let visibility = if is_public(&input.vis) && !all_public { &Visibility::Inherited } else { &input.vis };
    let (_, parameters, conditions) = generics.split_for_impl();
    let mut of_impl = generics.clone();
    let place = Ident::new("PlaceOfIt", Span::mixed_site());
    of_impl.params.push(parse_quote!(#place: #heap::Place<Of = #name #parameters>));
    let (of_impl, _, _) = of_impl.split_for_impl();
    let mut methods = TokenStream::new();
    let mut before = quote!(0);
    for field in &named.named {
        let (ident, ty) = (field.ident.as_ref().expect("fields are named"), &field.ty);
        let doc = format!("The place of the field `{ident}`.");
        methods.extend(quote! {
            #[doc = #doc]
            fn #ident(self) -> #heap::Field<#ty> {
                #heap::Place::field(self).part(#before)
            }
        });
        before = quote!(#before + <#ty as #heap::Plain>::WORDS);
    }
    let doc = format!("The fields of a [`{name}`] in a heap, by their places.");
    quote! {
        #[doc = #doc]
        #[allow(dead_code)]
        #visibility trait #name_of_trait #generics: #heap::Place<Of = #name #parameters> #conditions {
            #methods
        }

        #[automatically_derived]
        impl #of_impl #name_of_trait #parameters for #place #conditions {}
    }
}

fn expand_enum(input: &DeriveInput, data: &DataEnum, heap: &Path) -> Result<TokenStream, Error> {
    if let Some(variant) = data.variants.iter().find(|variant| !variant.fields.is_empty()) {
        let what = "an enum in a heap has no fields: use a struct with a kind and what belongs to it";
        return Err(Error::new(variant.span(), what));
    }
    let name = &input.ident;
    let variants: Vec<_> = data.variants.iter().map(|variant| &variant.ident).collect();
    let numbers: Vec<_> = (0..variants.len() as u64).collect();
    let names: Vec<_> = variants.iter().map(ToString::to_string).collect();
    let (short, whole) = (name.to_string(), format!("{name} {{ {} }}", names.join(" | ")));
    Ok(quote! {
        #[automatically_derived]
        impl #heap::Plain for #name {
            const WORDS: usize = 1;

            fn to_words(&self, words: &mut [u64]) {
                words[0] = match self { #(#name::#variants => #numbers,)* };
            }

            fn of_words(words: &[u64]) -> ::core::option::Option<Self> {
                match words[0] {
                    #(#numbers => ::core::option::Option::Some(#name::#variants),)*
                    _ => ::core::option::Option::None,
                }
            }

            fn describe(into: &mut ::std::string::String, whole: bool) {
                into.push_str(if whole { #whole } else { #short });
            }
        }
    })
}
