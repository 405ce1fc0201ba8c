package cedrat.persist.form;

import cedrat.persist.codec.ObjectBytes;
import cedrat.persist.codec.ObjectWriter;
import cedrat.persist.codec.Shape;
import cedrat.persist.codec.StoredClass;
import java.util.List;

/// Objects of the JDK, by their [Form].
///
/// **Threads:** any.
public final class FormShape extends Shape {
    public final Form form;

    public FormShape(Form form) {
        this.form = form;
    }

    @Override
    public StoredClass definition() {
        return new StoredClass(StoredClass.Kind.FORM, form.version, 0, form.name, List.of());
    }

    @Override
    public boolean isConstant() {
        return form.isConstant;
    }

    @Override
    public boolean mayChange(Object object) {
        return form.mayChange();
    }

    @Override
    public void write(Object object, ObjectWriter out) {
        form.write(object, out);
    }

    @Override
    public Object create(ObjectBytes in) {
        return form.create(in);
    }

    @Override
    public Object fill(Object created, ObjectBytes in, Object[] references) {
        return form.fill(created, in, references);
    }

    @Override
    public String step(Object object, int reference) {
        return form.step(object, reference);
    }

    @Override
    public String storedStep(int reference) {
        return form.storedStep(reference);
    }

    @Override
    public int storedKey(int reference) {
        return form.storedKey(reference);
    }
}
