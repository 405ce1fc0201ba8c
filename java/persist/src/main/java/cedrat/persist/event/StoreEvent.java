package cedrat.persist.event;

import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;

/// An event of one store.
///
/// **Threads:** one.
@Category({"Cedrat", "Objects"})
abstract class StoreEvent extends Event {
    @Label("Store")
    @Description("The folder of the store")
    String store;
}
