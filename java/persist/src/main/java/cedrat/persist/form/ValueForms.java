package cedrat.persist.form;

import cedrat.persist.StoreException;
import cedrat.persist.codec.ObjectBytes;
import cedrat.persist.codec.ObjectWriter;
import cedrat.persist.memory.Memory;
import java.io.File;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.MalformedURLException;
import java.net.URI;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.MonthDay;
import java.time.OffsetDateTime;
import java.time.OffsetTime;
import java.time.Period;
import java.time.Year;
import java.time.YearMonth;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.BitSet;
import java.util.Currency;
import java.util.Date;
import java.util.Locale;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.DoubleAdder;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.BiConsumer;
import java.util.function.Function;
import java.util.regex.Pattern;

/// Forms of objects that lead to no others.
final class ValueForms {
    private static final int LATIN = 0;
    private static final int UTF_16 = 1;

    private final Forms forms;

    private ValueForms(Forms forms) {
        this.forms = forms;
    }

    /// A form without references.
    private static final class Value<T> extends Form {
        private final BiConsumer<T, ObjectWriter> writer;
        private final Function<ObjectBytes, T> reader;
        private final PartFinder<T> finder;

        Value(String name, BiConsumer<T, ObjectWriter> writer, Function<ObjectBytes, T> reader, PartFinder<T> finder) {
            super(name);
            this.writer = writer;
            this.reader = reader;
            this.finder = finder;
        }

        @Override
        @SuppressWarnings("unchecked")
        void write(Object object, ObjectWriter out) {
            writer.accept((T) object, out);
            out.endData();
        }

        @Override
        Object fill(Object created, ObjectBytes in, Object[] references) {
            try {
                return reader.apply(in);
            } catch (RuntimeException e) {
                if (e instanceof StoreException) {
                    throw e;
                }
                throw new StoreException("cannot load an object of " + name + ": " + e.getMessage(), e);
            }
        }

        @Override
        @SuppressWarnings("unchecked")
        public void parts(Object object, PartVisitor parts) {
            finder.find((T) object, parts);
        }
    }

    /// Finds the parts of an object.
    private interface PartFinder<T> {
        void find(T object, Form.PartVisitor parts);
    }

    static void addTo(Forms forms) {
        ValueForms values = new ValueForms(forms);
        values.addNumbersAndTexts();
        values.addTimes();
        values.addNames();
        values.addWhatChanges();
    }

    /// Adds the form of a class whose objects do not change.
    private <T> void constant(Class<T> type, BiConsumer<T, ObjectWriter> writer, Function<ObjectBytes, T> reader) {
        forms.addConstant(type, new Value<>(type.getName(), writer, reader, (object, parts) -> {}));
    }

    private <T> void text(Class<T> type, Function<String, T> parser) {
        constant(type, (object, out) -> out.putText(object.toString()), in -> parser.apply(in.getText()));
    }

    private <T> void changing(
            Class<T> type, BiConsumer<T, ObjectWriter> writer, Function<ObjectBytes, T> reader, PartFinder<T> finder) {
        forms.add(type, new Value<>(type.getName(), writer, reader, finder));
    }

    private <T> void changing(Class<T> type, BiConsumer<T, ObjectWriter> writer, Function<ObjectBytes, T> reader) {
        changing(type, writer, reader, (object, parts) -> {});
    }

    private void addNumbersAndTexts() {
        constant(String.class, ValueForms::writeString, ValueForms::readString);
        constant(Long.class, (number, out) -> out.buffer.putLong(number), ObjectBytes::getLong);
        constant(
                Double.class,
                (number, out) -> out.buffer.putLong(Double.doubleToRawLongBits(number)),
                in -> Double.longBitsToDouble(in.getLong()));
        constant(BigInteger.class, ValueForms::writeInteger, ValueForms::readInteger);
        constant(
                BigDecimal.class,
                (number, out) -> {
                    out.buffer.putInt(number.scale());
                    writeInteger(number.unscaledValue(), out);
                },
                in -> {
                    int scale = in.getInt();
                    return new BigDecimal(readInteger(in), scale);
                });
        constant(
                OptionalInt.class,
                (number, out) -> {
                    out.buffer.putInt(number.isPresent() ? 1 : 0);
                    out.buffer.putInt(number.orElse(0));
                },
                in -> in.getInt() == 0 ? OptionalInt.empty() : OptionalInt.of(in.getInt()));
        constant(
                OptionalLong.class,
                (number, out) -> {
                    out.buffer.putLong(number.isPresent() ? 1 : 0);
                    out.buffer.putLong(number.orElse(0));
                },
                in -> in.getLong() == 0 ? OptionalLong.empty() : OptionalLong.of(in.getLong()));
        constant(
                OptionalDouble.class,
                (number, out) -> {
                    out.buffer.putLong(number.isPresent() ? 1 : 0);
                    out.buffer.putLong(Double.doubleToRawLongBits(number.orElse(0)));
                },
                in -> in.getLong() == 0
                        ? OptionalDouble.empty()
                        : OptionalDouble.of(Double.longBitsToDouble(in.getLong())));
        constant(
                UUID.class,
                (id, out) -> {
                    out.buffer.putLong(id.getMostSignificantBits());
                    out.buffer.putLong(id.getLeastSignificantBits());
                },
                in -> {
                    long most = in.getLong();
                    return new UUID(most, in.getLong());
                });
    }

    private void addTimes() {
        text(Duration.class, Duration::parse);
        text(Instant.class, Instant::parse);
        text(LocalDate.class, LocalDate::parse);
        text(LocalDateTime.class, LocalDateTime::parse);
        text(LocalTime.class, LocalTime::parse);
        text(MonthDay.class, MonthDay::parse);
        text(OffsetDateTime.class, OffsetDateTime::parse);
        text(OffsetTime.class, OffsetTime::parse);
        text(Period.class, Period::parse);
        text(ZoneOffset.class, ZoneOffset::of);
        constant(Year.class, (year, out) -> out.buffer.putInt(year.getValue()), in -> Year.of(in.getInt()));
        constant(
                YearMonth.class,
                (month, out) -> {
                    out.buffer.putInt(month.getYear());
                    out.buffer.putInt(month.getMonthValue());
                },
                in -> {
                    int year = in.getInt();
                    return YearMonth.of(year, in.getInt());
                });
        constant(
                ZonedDateTime.class,
                (time, out) -> {
                    out.putText(time.toLocalDateTime().toString());
                    out.putText(time.getOffset().getId());
                    out.putText(time.getZone().getId());
                },
                in -> {
                    LocalDateTime local = LocalDateTime.parse(in.getText());
                    ZoneOffset offset = ZoneOffset.of(in.getText());
                    return ZonedDateTime.ofInstant(local, offset, ZoneId.of(in.getText()));
                });
        // Its class is not public.
        Class<? extends ZoneId> region = ZoneId.of("Europe/Paris").getClass();
        forms.addConstant(
                region,
                new Value<ZoneId>(
                        "java.time.ZoneId",
                        (zone, out) -> out.putText(zone.getId()),
                        in -> ZoneId.of(in.getText()),
                        (object, parts) -> {}));
    }

    private void addNames() {
        text(URI.class, URI::create);
        text(File.class, File::new);
        constant(URL.class, ValueForms::writeUrl, in -> url(in.getText()));
        // Its class is not public. Paths of other file systems are of other classes.
        Class<? extends Path> path = Path.of("").getClass();
        forms.addConstant(
                path,
                new Value<Path>(
                        "java.nio.file.Path",
                        (one, out) -> out.putText(one.toString()),
                        in -> Path.of(in.getText()),
                        (object, parts) -> {}));
        constant(StackTraceElement.class, ValueForms::writeFrame, ValueForms::readFrame);
        text(Currency.class, Currency::getInstance);
        constant(Locale.class, ValueForms::writeLocale, ValueForms::readLocale);
        constant(
                Pattern.class,
                (pattern, out) -> {
                    out.buffer.putInt(pattern.flags());
                    out.putText(pattern.pattern());
                },
                in -> {
                    int flags = in.getInt();
                    return Pattern.compile(in.getText(), flags);
                });
        constant(Object.class, (object, out) -> {}, in -> new Object());
        forms.addConstant(
                Class.class,
                new Value<Class<?>>(
                        "java.lang.Class",
                        (type, out) -> out.putText(forms.nameOf(type, out)),
                        in -> forms.classOf(in.getText()),
                        (object, parts) -> {}));
    }

    private void addWhatChanges() {
        changing(Date.class, (date, out) -> out.buffer.putLong(date.getTime()), in -> new Date(in.getLong()));
        changing(
                StringBuilder.class,
                (builder, out) -> writeString(builder.toString(), out),
                in -> new StringBuilder(readString(in)));
        changing(
                StringBuffer.class,
                (buffer, out) -> writeString(buffer.toString(), out),
                in -> new StringBuffer(readString(in)));
        changing(
                AtomicBoolean.class,
                (bool, out) -> out.buffer.putInt(bool.get() ? 1 : 0),
                in -> new AtomicBoolean(in.getInt() != 0));
        changing(
                AtomicInteger.class,
                (number, out) -> out.buffer.putInt(number.get()),
                in -> new AtomicInteger(in.getInt()));
        changing(
                AtomicLong.class,
                (number, out) -> out.buffer.putLong(number.get()),
                in -> new AtomicLong(in.getLong()));
        changing(LongAdder.class, (adder, out) -> out.buffer.putLong(adder.sum()), in -> {
            LongAdder adder = new LongAdder();
            adder.add(in.getLong());
            return adder;
        });
        changing(DoubleAdder.class, (adder, out) -> out.buffer.putLong(Double.doubleToRawLongBits(adder.sum())), in -> {
            DoubleAdder adder = new DoubleAdder();
            adder.add(Double.longBitsToDouble(in.getLong()));
            return adder;
        });
        long words = Memory.offset(BitSet.class, "words");
        changing(
                BitSet.class,
                (bits, out) -> {
                    long[] all = bits.toLongArray();
                    out.buffer.putInt(all.length);
                    out.buffer.putInt(0);
                    for (long word : all) {
                        out.buffer.putLong(word);
                    }
                },
                in -> {
                    long[] all = new long[in.getCount()];
                    in.getInt();
                    for (int i = 0; i < all.length; i++) {
                        all[i] = in.getLong();
                    }
                    return BitSet.valueOf(all);
                },
                (bits, parts) -> parts.add(Memory.getReference(bits, words)));
        addRandom();
    }

    private void addRandom() {
        long seed = Memory.offset(Random.class, "seed");
        long hasNext = Memory.offset(Random.class, "haveNextNextGaussian");
        long next = Memory.offset(Random.class, "nextNextGaussian");
        changing(
                Random.class,
                (random, out) -> {
                    out.buffer.putLong(((AtomicLong) Memory.getReference(random, seed)).get());
                    out.buffer.putLong(Memory.getBits(random, next, 'D'));
                    out.buffer.putInt((int) Memory.getBits(random, hasNext, 'Z'));
                },
                in -> {
                    Random random = new Random(0);
                    ((AtomicLong) Memory.getReference(random, seed)).set(in.getLong());
                    Memory.putBits(random, next, 'D', in.getLong());
                    Memory.putBits(random, hasNext, 'Z', in.getInt());
                    return random;
                },
                (random, parts) -> parts.add(Memory.getReference(random, seed)));
    }

    // ---- frames of stack traces

    /// Which parts of it `toString` omits, because its class loader or module is one of the JDK.
    private static final long FRAME_FORMAT = Memory.offset(StackTraceElement.class, "format");

    private static void writeFrame(StackTraceElement frame, ObjectWriter out) {
        out.buffer.putInt(frame.getLineNumber());
        out.buffer.putInt((int) Memory.getBits(frame, FRAME_FORMAT, 'B'));
        for (String text : new String[] {
            frame.getClassName(),
            frame.getMethodName(),
            frame.getFileName(),
            frame.getClassLoaderName(),
            frame.getModuleName(),
            frame.getModuleVersion()
        }) {
            out.putText(text == null ? "" : text);
        }
    }

    private static StackTraceElement readFrame(ObjectBytes in) {
        int line = in.getInt();
        int format = in.getInt();
        String type = in.getText();
        String method = in.getText();
        String file = nameOrNull(in);
        String loader = nameOrNull(in);
        String module = nameOrNull(in);
        String version = nameOrNull(in);
        StackTraceElement frame = new StackTraceElement(loader, module, version, type, method, file, line);
        Memory.putBits(frame, FRAME_FORMAT, 'B', format);
        return frame;
    }

    private static String nameOrNull(ObjectBytes in) {
        String text = in.getText();
        return text.isEmpty() ? null : text;
    }

    // ---- texts and numbers

    /// Not as UTF-8: a string may have halves of pairs alone.
    private static void writeString(String text, ObjectWriter out) {
        int length = text.length();
        boolean isLatin = true;
        for (int i = 0; i < length && isLatin; i++) {
            isLatin = text.charAt(i) < 0x100;
        }
        byte[] bytes;
        if (isLatin) {
            bytes = text.getBytes(StandardCharsets.ISO_8859_1);
        } else {
            bytes = new byte[2 * length];
            for (int i = 0; i < length; i++) {
                bytes[2 * i] = (byte) text.charAt(i);
                bytes[2 * i + 1] = (byte) (text.charAt(i) >>> 8);
            }
        }
        out.buffer.putInt(isLatin ? LATIN : UTF_16);
        out.buffer.putInt(bytes.length);
        out.buffer.putBytes(bytes, 0, bytes.length);
    }

    private static String readString(ObjectBytes in) {
        int kind = in.getInt();
        byte[] bytes = in.getBytes(in.getCount());
        if (kind == LATIN) {
            return new String(bytes, StandardCharsets.ISO_8859_1);
        }
        char[] characters = new char[bytes.length / 2];
        for (int i = 0; i < characters.length; i++) {
            characters[i] = (char) (bytes[2 * i] & 0xff | bytes[2 * i + 1] << 8);
        }
        return new String(characters);
    }

    private static void writeInteger(BigInteger number, ObjectWriter out) {
        byte[] bytes = number.toByteArray();
        out.buffer.putInt(bytes.length);
        out.buffer.putBytes(bytes, 0, bytes.length);
    }

    private static BigInteger readInteger(ObjectBytes in) {
        return new BigInteger(in.getBytes(in.getCount()));
    }

    /// A URL that was made with a handler of its own is another one when it is made of its text.
    private static void writeUrl(URL url, ObjectWriter out) {
        String text = url.toExternalForm();
        if (!isUrl(text)) {
            throw out.refuse("its protocol has a handler of its own, which is not stored: store the string");
        }
        out.putText(text);
    }

    private static boolean isUrl(String text) {
        try {
            return url(text).toExternalForm().equals(text);
        } catch (IllegalArgumentException e) {
            return false;
        }
    }

    /// Not every URL is a URI.
    @SuppressWarnings("deprecation")
    private static URL url(String text) {
        try {
            return new URL(text);
        } catch (MalformedURLException e) {
            throw new IllegalArgumentException(e.getMessage(), e);
        }
    }

    /// By its tag, unless that is not the whole of it.
    private static void writeLocale(Locale locale, ObjectWriter out) {
        String tag = locale.toLanguageTag();
        boolean isWhole = Locale.forLanguageTag(tag).equals(locale);
        out.buffer.putInt(isWhole ? 0 : 1);
        if (isWhole) {
            out.putText(tag);
        } else {
            out.putText(locale.getLanguage());
            out.putText(locale.getCountry());
            out.putText(locale.getVariant());
        }
    }

    private static Locale readLocale(ObjectBytes in) {
        if (in.getInt() == 0) {
            return Locale.forLanguageTag(in.getText());
        }
        String language = in.getText();
        String country = in.getText();
        return Locale.of(language, country, in.getText());
    }
}
