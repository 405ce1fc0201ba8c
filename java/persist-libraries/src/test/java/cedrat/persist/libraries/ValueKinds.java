package cedrat.persist.libraries;

import java.math.BigDecimal;
import org.joda.money.CurrencyUnit;
import org.joda.money.Money;
import org.joda.time.DateTime;
import org.joda.time.DateTimeZone;
import org.joda.time.Days;
import org.joda.time.Duration;
import org.joda.time.Instant;
import org.joda.time.Interval;
import org.joda.time.LocalDate;
import org.joda.time.LocalDateTime;
import org.joda.time.MutableDateTime;
import org.joda.time.Period;
import org.joda.time.PeriodType;
import org.joda.time.YearMonth;
import org.joda.time.chrono.ISOChronology;
import org.locationtech.jts.geom.Coordinate;
import org.locationtech.jts.geom.Envelope;
import org.locationtech.jts.geom.Geometry;
import org.locationtech.jts.geom.GeometryFactory;
import org.locationtech.jts.geom.PrecisionModel;
import org.locationtech.jts.index.quadtree.Quadtree;
import org.locationtech.jts.index.strtree.STRtree;
import org.threeten.extra.LocalDateRange;
import org.threeten.extra.PeriodDuration;
import org.threeten.extra.Quarter;
import org.threeten.extra.YearQuarter;
import org.threeten.extra.YearWeek;

/// Kinds of the libraries of dates, amounts and geometries.
final class ValueKinds {
    private ValueKinds() {}

    static void addTo(Kinds kinds) {
        addTimes(kinds.of("Joda-Time"));
        addMoney(kinds.of("Joda-Money"));
        addExtra(kinds.of("ThreeTen-Extra"));
        addGeometries(kinds.of("JTS"));
    }

    private static void addTimes(Kinds kinds) {
        DateTimeZone zone = DateTimeZone.forID("Europe/Berlin");
        kinds.value("LocalDate", () -> new LocalDate(2020, 2, 28), it -> it.plusDays(2), Object::toString)
                .value(
                        "LocalDateTime",
                        () -> new LocalDateTime(2020, 2, 28, 1, 2),
                        it -> it.plusDays(2),
                        Object::toString)
                .value(
                        "DateTime",
                        () -> new DateTime(2020, 2, 28, 1, 2, zone),
                        it -> it.plusDays(200),
                        it -> it + " " + it.getDayOfWeek() + it.getZone())
                .value(
                        "DateTime in UTC",
                        () -> new DateTime(2020, 2, 28, 1, 2, DateTimeZone.UTC),
                        it -> it.plusDays(2),
                        it -> it + " " + (it.getZone() == DateTimeZone.UTC))
                .mutable(
                        "MutableDateTime",
                        () -> new MutableDateTime(2020, 2, 28, 1, 2, 0, 0, zone),
                        it -> it.addDays(3),
                        it -> it + " " + it.getWeekyear())
                .value("Instant", () -> new Instant(5), it -> it.plus(7), Object::toString)
                .value("Duration", () -> new Duration(5), it -> it.plus(7), Object::toString)
                .value(
                        "Interval",
                        () -> new Interval(5, 7, DateTimeZone.UTC),
                        it -> it.withEndMillis(9),
                        Object::toString)
                .value("Period", () -> new Period(5, 7, 1, 2), it -> it.plusDays(9), Object::toString)
                .value("PeriodType", PeriodType::days, it -> PeriodType.hours(), Object::toString)
                .value("Days", () -> Days.days(50), it -> it.plus(7), Object::toString)
                .value("Days, constant", () -> Days.ONE, it -> it.plus(7), it -> it + " " + (it == Days.days(1)))
                .value("YearMonth", () -> new YearMonth(2020, 2), it -> it.plusMonths(7), Object::toString)
                .value(
                        "DateTimeZone",
                        () -> zone,
                        it -> DateTimeZone.UTC,
                        it -> it + " " + (it == DateTimeZone.forID(it.getID())))
                .value(
                        "DateTimeZone.UTC",
                        () -> DateTimeZone.UTC,
                        it -> zone,
                        it -> it + " " + (it == DateTimeZone.UTC))
                .value(
                        "ISOChronology",
                        ISOChronology::getInstanceUTC,
                        it -> ISOChronology.getInstance(zone),
                        it -> it + " " + (it == ISOChronology.getInstance(it.getZone())));
    }

    private static void addMoney(Kinds kinds) {
        kinds.value(
                        "Money",
                        () -> Money.of(CurrencyUnit.EUR, new BigDecimal("1.50")),
                        it -> it.plus(2),
                        Object::toString)
                .value(
                        "CurrencyUnit.USD",
                        () -> CurrencyUnit.USD,
                        it -> CurrencyUnit.EUR,
                        it -> it + " " + (it == CurrencyUnit.USD) + (it == CurrencyUnit.of(it.getCode())))
                .value(
                        "CurrencyUnit without constant",
                        () -> CurrencyUnit.of("SEK"),
                        it -> CurrencyUnit.of("NOK"),
                        it -> it + " " + (it == CurrencyUnit.of(it.getCode())));
    }

    private static void addExtra(Kinds kinds) {
        java.time.LocalDate date = java.time.LocalDate.of(2020, 2, 28);
        kinds.value("YearQuarter", () -> YearQuarter.of(2020, Quarter.Q3), it -> it.plusQuarters(2), Object::toString)
                .value("YearWeek", () -> YearWeek.of(2020, 3), it -> it.plusWeeks(2), Object::toString)
                .value(
                        "PeriodDuration",
                        () -> PeriodDuration.of(java.time.Duration.ofHours(3)),
                        it -> it.plus(java.time.Duration.ofHours(3)),
                        Object::toString)
                .value(
                        "LocalDateRange",
                        () -> LocalDateRange.of(date, date.plusDays(3)),
                        it -> it.withEnd(date.plusDays(7)),
                        it -> it + " " + it.contains(date))
                .value(
                        "LocalDateRange.ALL",
                        () -> LocalDateRange.ALL,
                        it -> it.withEnd(date),
                        it -> it + " " + it.contains(date));
    }

    private static void addGeometries(Kinds kinds) {
        GeometryFactory factory = new GeometryFactory(new PrecisionModel(PrecisionModel.FLOATING), 4326);
        kinds.value(
                        "Point",
                        () -> (Geometry) factory.createPoint(new Coordinate(1, 2)),
                        it -> it.buffer(1),
                        it -> it + " " + it.getEnvelopeInternal() + it.getSRID())
                .value(
                        "LineString",
                        () -> (Geometry)
                                factory.createLineString(new Coordinate[] {new Coordinate(1, 2), new Coordinate(5, 2)}),
                        it -> it.buffer(1),
                        it -> it + " " + it.getLength())
                .mutable(
                        "Polygon",
                        () -> factory.createPoint(new Coordinate(1, 2)).buffer(2),
                        it -> it.apply((Coordinate at) -> at.x += 1),
                        it -> it + " " + it.getArea())
                .value(
                        "MultiPoint",
                        () -> (Geometry) factory.createMultiPointFromCoords(new Coordinate[] {new Coordinate(1, 2)}),
                        it -> it.buffer(1),
                        it -> it + " " + it.getNumGeometries())
                .mutable("Coordinate", () -> new Coordinate(1, 2), it -> it.x = 7, Object::toString)
                .mutable("Envelope", () -> new Envelope(1, 2, 3, 4), it -> it.expandBy(7), Object::toString)
                .value(
                        "PrecisionModel",
                        () -> new PrecisionModel(100),
                        it -> new PrecisionModel(PrecisionModel.FLOATING),
                        it -> it + " " + it.isFloating() + it.getType())
                .mutable(
                        "STRtree",
                        () -> {
                            STRtree tree = new STRtree();
                            tree.insert(new Envelope(1, 2, 3, 4), "a");
                            return tree;
                        },
                        it -> it.insert(new Envelope(1, 3, 3, 4), "b"),
                        it -> it.size() + " " + ((STRtree) copied(it)).query(new Envelope(1, 2, 3, 4)))
                .mutable(
                        "Quadtree",
                        () -> {
                            Quadtree tree = new Quadtree();
                            tree.insert(new Envelope(1, 2, 3, 4), "a");
                            return tree;
                        },
                        it -> it.insert(new Envelope(1, 3, 3, 4), "b"),
                        it -> it.size() + " " + it.query(new Envelope(1, 2, 3, 4)));
    }

    /// A query of the tree would end its changes.
    private static Object copied(STRtree tree) {
        STRtree copy = new STRtree();
        copy.insert(new Envelope(1, 2, 3, 4), tree.size());
        return copy;
    }
}
