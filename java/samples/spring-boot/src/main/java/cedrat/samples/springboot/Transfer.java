package cedrat.samples.springboot;

/// An order to move money.
///
/// @param id    chosen by the client; an order that is repeated is carried out once
/// @param cents positive
record Transfer(String id, String from, String to, long cents) {
    Transfer {
        if (cents <= 0) {
            throw new IllegalArgumentException("invalid cents " + cents + ": transfer a positive amount");
        }
    }
}
