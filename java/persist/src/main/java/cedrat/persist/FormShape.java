package cedrat.persist;

import java.util.List;

/// Objects of the JDK, by their [Form].
///
/// **Threads:** any.
final class FormShape extends Shape {
    final Form form;

    FormShape(Form form) {
        this.form = form;
    }

    @Override
    StoredClass definition() {
        return new StoredClass(StoredClass.Kind.FORM, form.version, 0, form.name, List.of());
    }

    @Override
    boolean isConstant() {
        return form.isConstant;
    }

    @Override
    boolean mayChange(Object object) {
        return form.mayChange();
    }

    @Override
    void write(Object object, ObjectWriter out) {
        form.write(object, out);
    }

    @Override
    Object create(ObjectBytes in) {
        return form.create(in);
    }

    @Override
    Object fill(Object created, ObjectBytes in, Object[] references) {
        return form.fill(created, in, references);
    }

    @Override
    String step(Object object, int reference) {
        return form.step(object, reference);
    }

    @Override
    String storedStep(int reference) {
        return form.storedStep(reference);
    }

    @Override
    int storedKey(int reference) {
        return form.storedKey(reference);
    }
}
